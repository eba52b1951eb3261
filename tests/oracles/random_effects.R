# What R's metafor says of random effects, for test_random_effects_against_metafor.py.
# Rscript tests/oracles/random_effects.R > tests/oracles/random_effects.json
suppressPackageStartupMessages(library(metafor))
set.seed(1)
numbers <- function(x) paste0("[", paste(as.character(signif(x, 15)), collapse = ", "), "]")

table <- function(k, between, low, high) {
  error <- round(runif(k, low, high), 3)
  list(value = round(rnorm(k, 0.2, between) + rnorm(k, 0, error), 3), error = error)
}

fits <- function(data) {
  exact <- list(threshold = 1e-12, maxiter = 10000, tol = 1e-12)
  fit <- function(method, test) rma(data$value, sei = data$error, method = method, test = test, control = exact)
  one <- function(method) {
    plain <- fit(method, "knha")
    wide <- fit(method, "adhoc")
    expected <- predict(wide)
    sprintf(
      '{"tau": %.15g, "mean": %.15g, "knha": %s, "adhoc": %s, "prediction": %s}',
      sqrt(plain$tau2), plain$beta[1], numbers(c(plain$ci.lb, plain$ci.ub)), numbers(c(wide$ci.lb, wide$ci.ub)),
      numbers(c(expected$pi.lb, expected$pi.ub))
    )
  }
  sprintf(
    '{"value": %s, "error": %s, "paule-mandel": %s, "reml": %s}',
    numbers(data$value), numbers(data$error), one("PM"), one("REML")
  )
}

tables <- c(fits(table(12, 0.5, 0.1, 0.4)), fits(table(25, 0.1, 0.1, 0.8)), fits(table(10, 0, 0.2, 0.3)))
cat(sprintf(
  '{\n"versions": {"R": "%s", "metafor": "%s"},\n"tables": [\n%s\n]\n}\n',
  getRversion(), packageVersion("metafor"), paste(tables, collapse = ",\n")
))
