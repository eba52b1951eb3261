# What R's survey package says of weighted proportions, for test_sampling_weights_against_survey.py.
# Rscript tests/oracles/survey.R > tests/oracles/survey.json
suppressPackageStartupMessages(library(survey))
set.seed(1)
numbers <- function(x) paste0("[", paste(as.character(signif(x, 15)), collapse = ", "), "]")

draw <- function(n, risk, of_events, of_others, spread) {
  y <- as.numeric(runif(n) < risk)
  w <- ifelse(y == 1, of_events, of_others) * exp(spread * rnorm(n))
  list(y = y, w = round(w, 3))
}

proportion <- function(data) {
  design <- svydesign(ids = ~1, weights = ~w, data = data.frame(data))
  interval <- function(level) as.vector(attr(svyciprop(~y, design, method = "beta", level = level), "ci"))
  mean <- svymean(~y, design)
  sprintf(
    '{"y": %s, "w": %s, "rate": %.15g, "standard_error": %.15g, "beta_95": %s, "beta_80": %s}',
    numbers(data$y), numbers(data$w), coef(mean), SE(mean), numbers(interval(0.95)), numbers(interval(0.8))
  )
}

# Rao and Scott's second-order corrected test that a rate is the same in every domain.
homogeneity <- function(n, risks, spread) {
  domain <- rep(seq_along(risks), each = n)
  data <- draw(n * length(risks), risks[domain], 1, 3, spread)
  w <- data$w / ave(data$w, domain)
  design <- svydesign(ids = ~1, weights = ~w, data = data.frame(y = data$y, w = w, domain = factor(domain)))
  test <- svychisq(~ y + domain, design, statistic = "F")
  sprintf(
    '{"y": %s, "w": %s, "domain": %s, "p_value": %.15g}',
    numbers(data$y), numbers(data$w), numbers(domain), test$p.value
  )
}

proportions <- c(
  proportion(draw(12, 0.5, 1, 5, 0)), proportion(draw(40, 0.3, 2, 1, 0.8)), proportion(draw(200, 0.05, 1, 4, 0.5)),
  proportion(draw(30, 0.8, 10, 1, 0)), proportion(draw(25, 0.4, 1, 1, 1.2))
)
tests <- c(
  homogeneity(100, rep(0.3, 5), 0.5), homogeneity(200, c(0.2, 0.3, 0.3, 0.3, 0.45), 0.5),
  homogeneity(300, c(0.47, 0.55), 0.3)
)
cat(sprintf(
  '{\n"versions": {"R": "%s", "survey": "%s"},\n"proportions": [\n%s\n],\n"tests": [\n%s\n]\n}\n',
  getRversion(), packageVersion("survey"), paste(proportions, collapse = ",\n"), paste(tests, collapse = ",\n")
))
