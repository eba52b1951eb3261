# What R's lme4 says of a line per domain, for test_mixed_linear_against_lme4.py.
# Rscript tests/oracles/mixed_linear.R > tests/oracles/mixed_linear.json
suppressPackageStartupMessages(library(lme4))
set.seed(1)
numbers <- function(x) paste0("[", paste(as.character(signif(as.vector(x), 15)), collapse = ", "), "]")

drawn <- function(sizes, sds, correlation, noise) {
  domain <- rep(seq_along(sizes), sizes)
  x <- round(rnorm(length(domain)), 3)
  normal <- matrix(rnorm(2 * length(sizes)), ncol = 2)
  a <- 0.4 + sds[1] * normal[, 1]
  b <- 1.1 + sds[2] * (correlation * normal[, 1] + sqrt(1 - correlation^2) * normal[, 2])
  data.frame(x = x, y = round(a[domain] + b[domain] * x + noise * rnorm(length(x)), 3), domain = domain)
}

described <- function(data, reml) {
  control <- lmerControl(optCtrl = list(xtol_abs = 1e-12, ftol_abs = 1e-12, maxeval = 1e5), calc.derivs = FALSE)
  fit <- lmer(y ~ x + (x | domain), data, REML = reml, control = control)
  effects <- ranef(fit, condVar = TRUE)$domain
  spread <- attr(effects, "postVar")
  sprintf(
    '{"mean": %s, "covariance": %s, "sigma": %.15g, "log_likelihood": %.15g, "effects": %s, "effect_covariances": %s}',
    numbers(fixef(fit)), numbers(VarCorr(fit)$domain), sigma(fit), logLik(fit),
    numbers(t(as.matrix(coef(fit)$domain))), numbers(spread)
  )
}

table <- function(name, data) {
  sprintf(
    '{"name": "%s", "x": %s, "y": %s, "domain": %s,\n"ml": %s,\n"reml": %s}',
    name, numbers(data$x), numbers(data$y), numbers(data$domain), described(data, FALSE), described(data, TRUE)
  )
}

sleep <- with(sleepstudy, data.frame(x = Days, y = Reaction, domain = as.integer(Subject)))
tables <- c(
  table("sleep, 18 subjects of 10 days", sleep),
  table("30 domains of 2 to 40 rows", drawn(rep(c(2, 5, 11, 40, 17), 6), c(0.8, 0.5), -0.4, 1.2)),
  table("6 domains, one with most rows", drawn(c(150, 8, 12, 9, 20, 5), c(1.5, 0.6), 0.7, 0.5))
)
cat(sprintf(
  '{\n"versions": {"R": "%s", "lme4": "%s"},\n"tables": [\n%s\n]\n}\n',
  getRversion(), packageVersion("lme4"), paste(tables, collapse = ",\n")
))
