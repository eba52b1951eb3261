# What R's lme4 says of intercepts and slopes that vary by domain, for test_mixed_against_lme4.py.
# Rscript tests/oracles/mixed.R > tests/oracles/mixed.json
suppressPackageStartupMessages(library(lme4))
set.seed(1)
numbers <- function(x) paste0("[", paste(as.character(signif(x, 15)), collapse = ", "), "]")

# Events among trials at nine scores in each domain.
table_of <- function(domains, trials, mean, deviation, correlation) {
  z1 <- rnorm(domains)
  z2 <- correlation * z1 + sqrt(1 - correlation^2) * rnorm(domains)
  intercept <- mean[1] + deviation[1] * z1
  slope <- mean[2] + deviation[2] * z2
  x <- rep(seq(-2, 2, by = 0.5), domains)
  domain <- rep(seq_len(domains), each = 9)
  events <- rbinom(length(x), trials, plogis(intercept[domain] + slope[domain] * x))
  data.frame(x = x, domain = domain, events = events, trials = trials)
}

fit_of <- function(data) {
  fit <- glmer(
    cbind(events, trials - events) ~ x + (1 + x | domain),
    data = data, family = binomial, control = glmerControl(optimizer = "bobyqa", tolPwrss = 1e-12)
  )
  effects <- coef(fit)$domain
  sprintf(
    paste0(
      '{"x": %s, "domain": %s, "events": %s, "trials": %s,\n "mean": %s, "covariance": %s,\n',
      ' "intercepts": %s, "slopes": %s}'
    ),
    numbers(data$x), numbers(data$domain - 1), numbers(data$events), numbers(data$trials),
    numbers(fixef(fit)), numbers(as.vector(VarCorr(fit)$domain)), numbers(effects[, 1]), numbers(effects[, 2])
  )
}

tables <- c(
  fit_of(table_of(30, 40, c(-0.5, 1.2), c(0.6, 0.3), 0)),
  fit_of(table_of(12, 200, c(-2, 0.8), c(0.5, 0.3), 0.5)),
  fit_of(table_of(60, 10, c(0.3, 1), c(1, 0.4), -0.3))
)
cat(sprintf(
  '{\n"versions": {"R": "%s", "lme4": "%s"},\n"tables": [\n%s\n]\n}\n',
  getRversion(), packageVersion("lme4"), paste(tables, collapse = ",\n")
))
