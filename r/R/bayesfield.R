# Everything is computed by the command line of the Python library; here data frames go out and JSON comes back.

#' The words that call the command line: option "bayesfield.command", the environment's BAYESFIELD_COMMAND, or
#' "bayesfield" where the shell finds it.
bayesfield_command <- function() {
  given <- getOption("bayesfield.command", Sys.getenv("BAYESFIELD_COMMAND", ""))
  if (length(given) > 1) return(given)
  if (nzchar(given)) return(strsplit(given, " ", fixed = TRUE)[[1]])
  found <- Sys.which("bayesfield")
  if (!nzchar(found)) {
    stop("the command bayesfield is not found. Install it (pip install bayesfield), or say where it is: ",
         "options(bayesfield.command = \"/path/to/bayesfield\")", call. = FALSE)
  }
  unname(found)
}

# Runs a command and returns its JSON. Exit codes 3 and 4 are results with a warning (not converged, poor).
run <- function(arguments) {
  command <- bayesfield_command()
  out <- tempfile(fileext = ".json")
  err <- tempfile(fileext = ".txt")
  on.exit(unlink(c(out, err)))
  code <- system2(command[1], shQuote(c(command[-1], arguments, "--json")), stdout = out, stderr = err)
  said <- paste(readLines(err, warn = FALSE), collapse = "\n")
  if (!code %in% c(0, 3, 4)) {
    stop(sub("^.*error: ", "", said), call. = FALSE)
  }
  if (code != 0) {
    warning(if (code == 3) "the fit did not converge: " else "the posterior is poor: ", said, call. = FALSE)
  }
  jsonlite::fromJSON(paste(readLines(out, warn = FALSE, encoding = "UTF-8"), collapse = "\n"))
}

# x as a table with names, in a file that holds as long as R runs.
as_file <- function(x) {
  if (is.matrix(x)) x <- as.data.frame(x)
  if (!is.data.frame(x)) stop("x is a data frame or a matrix: a row for each case, a column for each item", call. = FALSE)
  path <- tempfile(fileext = ".csv")
  write.csv(x, path, row.names = FALSE, na = "", fileEncoding = "UTF-8")
  path
}

#' The posterior of a network of items.
#'
#' x: a data frame or matrix; missing cells (NA) are summed over. variable_type: "binary" or "ordinal"; by default
#' "binary" where every item has two values. edges: a data frame of pairs (two columns of names); by default all pairs.
#' prior_variance: of the normal prior of the parameters.
bgm <- function(x, variable_type = NULL, edges = NULL, prior_variance = NULL) {
  data <- as_file(x)
  x <- as.data.frame(x)
  if (is.null(variable_type)) {
    two <- all(vapply(x, function(column) length(unique(stats::na.omit(column))) <= 2, logical(1)))
    variable_type <- if (two) "binary" else "ordinal"
  }
  model <- c(binary = "ising", ordinal = "ordinal")[match.arg(variable_type, c("binary", "ordinal"))]
  folder <- tempfile("bayesfield")
  arguments <- c("fit", data, "--model", unname(model), "--out", folder)
  if (!is.null(prior_variance)) arguments <- c(arguments, "--prior-variance", format(prior_variance, digits = 17))
  if (!is.null(edges)) {
    pairs <- tempfile(fileext = ".csv")
    write.csv(as.data.frame(edges)[, 1:2], pairs, row.names = FALSE)
    arguments <- c(arguments, "--graph", pairs)
  }
  record <- run(arguments)
  parameters <- utils::read.csv(file.path(folder, "posterior.csv"), check.names = FALSE, encoding = "UTF-8")
  structure(
    list(parameters = parameters, record = record, folder = folder, names = names(x), model = unname(model)),
    class = "bayesfield"
  )
}

#' A row for each edge: effect, Bayes factor, inclusion probability given that all other edges are there.
bgm_edges <- function(fit, probability = 0.5) {
  as.data.frame(run(c("edges", fit$folder, "--probability", format(probability, digits = 17))))
}

#' The same, averaged over which of the other edges are there.
bgm_structure <- function(fit, probability = 0.5, seed = 0) {
  arguments <- c("edges", fit$folder, "--structure", "--probability", format(probability, digits = 17))
  as.data.frame(run(c(arguments, "--seed", format(seed))))
}

#' Models of one table by their evidence. models: of "ising", "potts", "ordinal".
bgm_compare_models <- function(x, models = c("ising", "potts")) {
  run(c("compare", as_file(x), as.vector(rbind("--model", models))))
}

extract_pairwise_interactions <- function(fit) square(fit, bgm_edges(fit), "mean")
extract_posterior_inclusion_probabilities <- function(fit, ...) square(fit, bgm_structure(fit, ...), "inclusion")
extract_bayes_factors <- function(fit) square(fit, bgm_edges(fit), "log_bayes_factor")

# A symmetric matrix of a column of edges.
square <- function(fit, edges, column) {
  result <- matrix(0, length(fit$names), length(fit$names), dimnames = list(fit$names, fit$names))
  at <- cbind(match(edges$first, fit$names), match(edges$second, fit$names))
  result[at] <- edges[[column]]
  result[at[, 2:1, drop = FALSE]] <- edges[[column]]
  result
}

print.bayesfield <- function(x, digits = 3, ...) {
  cat("Posterior of ", nrow(x$parameters), " parameters of ", length(x$names), " items (", x$model, ")\n", sep = "")
  certificate <- x$record$certificate
  if (!is.null(certificate)) cat("trust: ", certificate$verdict, "; ", certificate$advice, "\n", sep = "")
  shown <- utils::head(x$parameters, 10)
  numbers <- vapply(shown, is.numeric, logical(1))
  shown[numbers] <- lapply(shown[numbers], round, digits)
  print(shown, row.names = FALSE)
  if (nrow(x$parameters) > 10) cat("... and ", nrow(x$parameters) - 10, " more: summary(fit)\n", sep = "")
  invisible(x)
}

summary.bayesfield <- function(object, ...) object$parameters

coef.bayesfield <- function(object, ...) stats::setNames(object$parameters$mean, object$parameters$parameter)

#' A circle of items; edges that are more likely there than not, as wide as their effect, blue above zero and red below.
plot.bayesfield <- function(x, threshold = 0.5, edges = bgm_edges(x), ...) {
  angle <- 2 * pi * (seq_along(x$names) - 1) / length(x$names)
  at <- cbind(sin(angle), cos(angle))
  plot(at, type = "n", axes = FALSE, xlab = "", ylab = "", asp = 1, xlim = c(-1.3, 1.3), ylim = c(-1.3, 1.3), ...)
  there <- edges[edges$inclusion > threshold, , drop = FALSE]
  if (nrow(there)) {
    first <- at[match(there$first, x$names), , drop = FALSE]
    second <- at[match(there$second, x$names), , drop = FALSE]
    segments(first[, 1], first[, 2], second[, 1], second[, 2], lwd = 1 + 6 * abs(there$mean) / max(abs(there$mean)),
             col = ifelse(there$mean > 0, "#0072b2", "#d55e00"))
  }
  points(at, pch = 21, bg = "white", cex = 2)
  text(1.18 * at[, 1], 1.18 * at[, 2], x$names)
  invisible(there)
}
