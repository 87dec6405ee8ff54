#include "stages/evaluate/classification_metrics.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <iterator>
#include <string_view>

#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "runner/shared/disk/new_file.h"
#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/run_context.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/text/printable.h"
#include "runner/shared/text/units.h"
#include "stages/artifact/results.h"
#include "stages/evaluate/classification_curves.h"
#include "stages/evaluate/predictions_csv.h"
#include "stages/evaluate/suspected_labels.h"

namespace stages {

ConfusionMatrix::ConfusionMatrix(std::int64_t classes)
    : support_(static_cast<std::size_t>(classes)),
      predictions_(static_cast<std::size_t>(classes)) {}

void ConfusionMatrix::add(std::int64_t truth, std::int64_t predicted) {
  ++support_.at(static_cast<std::size_t>(truth));
  ++predictions_.at(static_cast<std::size_t>(predicted));
  ++counts_[{truth, predicted}];
  ++samples_;
  if (truth == predicted) ++correct_;
}

std::int64_t ConfusionMatrix::count(std::int64_t truth, std::int64_t predicted) const {
  const auto found = counts_.find({truth, predicted});
  return found == counts_.end() ? 0 : found->second;
}

namespace {

double ratio(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

/// Returns the weighted mean of the classes' values.
template <typename Weight>
ClassQuality mean(const std::vector<ClassQuality>& qualities, Weight weight) {
  ClassQuality sum;
  double weights = 0;
  for (std::size_t label = 0; label < qualities.size(); ++label) {
    const double share = static_cast<double>(weight(static_cast<std::int64_t>(label)));
    sum.precision += share * qualities[label].precision;
    sum.recall += share * qualities[label].recall;
    sum.f1 += share * qualities[label].f1;
    weights += share;
  }
  return {sum.precision / weights, sum.recall / weights, sum.f1 / weights};
}

double mean_recall_of_present(const ConfusionMatrix& confusion,
                              const std::vector<ClassQuality>& qualities) {
  double sum = 0;
  std::int64_t present = 0;
  for (std::size_t label = 0; label < qualities.size(); ++label) {
    if (confusion.support(static_cast<std::int64_t>(label)) == 0) continue;
    sum += qualities[label].recall;
    ++present;
  }
  return sum / static_cast<double>(present);
}

}  // namespace

ClassQuality class_quality(const ConfusionMatrix& confusion, std::int64_t label) {
  const std::int64_t correct = confusion.count(label, label);
  const std::int64_t support = confusion.support(label), predictions = confusion.predictions(label);
  return {ratio(correct, predictions), ratio(correct, support),
          ratio(2 * correct, support + predictions)};
}

Interval wilson_interval(std::int64_t successes, std::int64_t trials) {
  assert(trials > 0);
  constexpr double kQuantile = 1.959963984540054;  // quantile of the normal distribution at 97.5%
  const double n = static_cast<double>(trials), share = static_cast<double>(successes) / n;
  const double square = kQuantile * kQuantile;
  const double center = (share + square / (2 * n)) / (1 + square / n);
  const double half =
      kQuantile / (1 + square / n) * std::sqrt(share * (1 - share) / n + square / (4 * n * n));
  return {std::max(0.0, center - half), std::min(1.0, center + half)};
}

ClassificationMetrics classification_metrics(const at::Tensor& logits, const at::Tensor& labels,
                                             const std::vector<std::int64_t>& top_k,
                                             const std::vector<bool>& present,
                                             const std::vector<std::int64_t>& predicted) {
  const std::int64_t samples = logits.size(0), classes = logits.size(1);
  assert(samples > 0 && labels.size(0) == samples);
  ClassificationMetrics metrics;
  metrics.confusion = ConfusionMatrix(classes);
  std::vector<std::int64_t> of_rank(static_cast<std::size_t>(classes));
  const at::Tensor truths = labels.contiguous();
  double log_probabilities = 0;
  for (std::int64_t row = 0; row < samples; ++row) {
    const ClassScores scores = class_scores(logits, row);
    const std::int64_t truth = truths.const_data_ptr<std::int64_t>()[row];
    metrics.confusion.add(
        truth, predicted.empty() ? scores.predicted() : predicted[static_cast<std::size_t>(row)]);
    ++of_rank[static_cast<std::size_t>(scores.rank(truth))];
    log_probabilities += scores.log_probability(truth);
  }

  const ConfusionMatrix& confusion = metrics.confusion;
  for (std::int64_t label = 0; label < classes; ++label)
    metrics.of_class.push_back(class_quality(confusion, label));
  const auto may_occur = [&](std::int64_t label) {
    return present.empty() ||
           (label < std::ssize(present) && present[static_cast<std::size_t>(label)]);
  };
  metrics.macro =
      mean(metrics.of_class, [&](std::int64_t label) { return may_occur(label) ? 1 : 0; });
  metrics.weighted =
      mean(metrics.of_class, [&](std::int64_t label) { return confusion.support(label); });
  metrics.top1 = ratio(confusion.correct(), samples);
  for (const std::int64_t k : top_k) {
    if (k >= classes) continue;
    std::int64_t among = 0;
    for (std::int64_t rank = 0; rank < k; ++rank) among += of_rank[static_cast<std::size_t>(rank)];
    metrics.top_k.emplace_back(k, ratio(among, samples));
  }
  metrics.top1_interval = wilson_interval(confusion.correct(), samples);
  metrics.mean_per_class = mean_recall_of_present(confusion, metrics.of_class);
  metrics.log_loss = -log_probabilities / static_cast<double>(samples);
  metrics.chance = 1 / static_cast<double>(classes);
  return metrics;
}

std::vector<std::pair<std::string, double>> summary(const ClassificationMetrics& metrics) {
  std::vector<std::pair<std::string, double>> values = {{"top1", metrics.top1}};
  for (const auto& [k, share] : metrics.top_k) {
    if (k != 1) values.emplace_back("top" + std::to_string(k), share);
  }
  values.insert(values.end(), {{"mean_per_class", metrics.mean_per_class},
                               {"macro_precision", metrics.macro.precision},
                               {"macro_recall", metrics.macro.recall},
                               {"macro_f1", metrics.macro.f1},
                               {"weighted_precision", metrics.weighted.precision},
                               {"weighted_recall", metrics.weighted.recall},
                               {"weighted_f1", metrics.weighted.f1},
                               {"log_loss", metrics.log_loss},
                               {"top1_low", metrics.top1_interval.low},
                               {"top1_high", metrics.top1_interval.high},
                               {"chance", metrics.chance},
                               {"samples", static_cast<double>(metrics.confusion.samples())}});
  return values;
}

namespace {

using runner::decimal;

std::string percent(double share) { return decimal(100 * share, 1); }

/// Returns the number of characters in a UTF-8 string: the bytes that are not continuation bytes.
std::size_t characters(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char letter) { return (static_cast<unsigned char>(letter) & 0xC0) != 0x80; }));
}

std::string right_aligned(std::string_view text, std::size_t width) {
  const std::size_t length = characters(text);
  return std::string(length < width ? width - length : 0, ' ') + std::string(text);
}

constexpr std::size_t kColumn = 10;

std::string row(std::string_view label, std::size_t width,
                const std::array<std::string, 4>& cells) {
  std::string text = right_aligned(label, width) + " ";
  for (const std::string& cell : cells) text += right_aligned(cell, kColumn);
  return text + "\n";
}

std::string row(std::string_view label, std::size_t width, const ClassQuality& quality,
                std::int64_t support) {
  return row(label, width,
             {decimal(quality.precision, 2), decimal(quality.recall, 2), decimal(quality.f1, 2),
              std::to_string(support)});
}

nlohmann::ordered_json json_of(const ClassQuality& quality) {
  return {{"precision", quality.precision}, {"recall", quality.recall}, {"f1", quality.f1}};
}

}  // namespace

std::string report_text(const ClassificationMetrics& metrics,
                        const std::vector<std::string>& classes) {
  constexpr std::string_view kWeighted = "weighted avg";
  std::vector<std::string> names;
  std::size_t width = kWeighted.size();
  for (const std::string& name : classes) {
    names.push_back(runner::printable(name));
    width = std::max(width, characters(names.back()));
  }
  const std::int64_t samples = metrics.confusion.samples();
  std::string text = row("", width, {"precision", "recall", "f1-score", "support"}) + "\n";
  for (std::size_t label = 0; label < names.size(); ++label) {
    text += row(names[label], width, metrics.of_class[label],
                metrics.confusion.support(static_cast<std::int64_t>(label)));
  }
  text +=
      "\n" + row("accuracy", width, {"", "", decimal(metrics.top1, 2), std::to_string(samples)});
  text += row("macro avg", width, metrics.macro, samples);
  text += row(kWeighted, width, metrics.weighted, samples);
  return text;
}

nlohmann::ordered_json to_json(const ConfusionMatrix& confusion) {
  if (confusion.classes() > kLargestMatrix) return nullptr;
  auto rows = nlohmann::ordered_json::array();
  for (std::int64_t truth = 0; truth < confusion.classes(); ++truth) {
    auto cells = nlohmann::ordered_json::array();
    for (std::int64_t predicted = 0; predicted < confusion.classes(); ++predicted) {
      cells.push_back(confusion.count(truth, predicted));
    }
    rows.push_back(std::move(cells));
  }
  return rows;
}

nlohmann::ordered_json to_json(const ClassificationMetrics& metrics,
                               const std::vector<std::string>& classes) {
  nlohmann::ordered_json json;
  json["samples"] = metrics.confusion.samples();
  json["classes"] = metrics.confusion.classes();
  json["top1"] = metrics.top1;
  json["top1_interval"] = {{"confidence", 0.95},
                           {"low", metrics.top1_interval.low},
                           {"high", metrics.top1_interval.high}};
  for (const auto& [k, share] : metrics.top_k) json["top" + std::to_string(k)] = share;
  json["mean_per_class"] = metrics.mean_per_class;
  json["log_loss"] = metrics.log_loss;
  json["chance"] = metrics.chance;
  json["macro"] = json_of(metrics.macro);
  json["weighted"] = json_of(metrics.weighted);
  json["per_class"] = nlohmann::ordered_json::array();
  for (std::size_t label = 0; label < classes.size(); ++label) {
    nlohmann::ordered_json one = {{"class", classes[label]}};
    one.update(json_of(metrics.of_class[label]));
    one["support"] = metrics.confusion.support(static_cast<std::int64_t>(label));
    json["per_class"].push_back(std::move(one));
  }
  json["confusion_matrix"] = to_json(metrics.confusion);
  return json;
}

std::string headline(const ClassificationMetrics& metrics) {
  return "top-1 " + percent(metrics.top1) + "% (95% interval " +
         percent(metrics.top1_interval.low) + "–" + percent(metrics.top1_interval.high) +
         "%), mean per class " + percent(metrics.mean_per_class) + "%, chance " +
         percent(metrics.chance) + "%, " + std::to_string(metrics.confusion.samples()) + " images";
}

namespace {

/// Returns the softmax of each row in float32. Computes a few rows at a time in float64: all rows
/// at once would need five times the memory of the result.
at::Tensor shares_of_rows(const at::Tensor& logits) {
  constexpr std::int64_t kAtOnce = 4096;
  const std::int64_t rows = std::max<std::int64_t>(1, kAtOnce / logits.size(1));
  at::Tensor shares = torch::empty_like(logits, at::kFloat);
  for (std::int64_t row = 0; row < logits.size(0); row += rows) {
    const std::int64_t end = std::min(row + rows, logits.size(0));
    shares.slice(0, row, end).copy_(logits.slice(0, row, end).to(at::kDouble).softmax(1));
  }
  return shares;
}

void say_left_out(const std::vector<std::int64_t>& top_k, std::int64_t classes,
                  runner::RunContext& context) {
  for (const std::int64_t k : top_k) {
    if (k < classes) continue;
    context.say("top-" + std::to_string(k) + " is left out: with " + std::to_string(classes) +
                " classes it is 100% by definition");
  }
}

/// Writes suspected_labels.csv, reports its contents, and returns the member for metrics.json.
nlohmann::ordered_json report_suspected(const Classified& classified, runner::RunContext& context) {
  constexpr std::size_t kFirstSuspects = 5;
  const ClassifiedSamples& samples = classified.samples;
  const auto suspected = suspected_labels(samples.logits, samples.labels);
  runner::write_atomically(context.node().folder / "suspected_labels.csv",
                           suspected_labels_csv(suspected, samples, classified.classes));
  nlohmann::ordered_json json = {{"count", suspected.size()},
                                 {"trained", samples.trained},
                                 {"first", nlohmann::ordered_json::array()}};
  for (std::size_t i = 0; i < std::min(suspected.size(), kFirstSuspects); ++i) {
    const SuspectedLabel& one = suspected[i];
    json["first"].push_back(
        {{"name", samples.names[static_cast<std::size_t>(one.row)]},
         {"label", classified.classes[static_cast<std::size_t>(one.label)]},
         {"suggested", classified.classes[static_cast<std::size_t>(one.suggested)]}});
  }
  if (!suspected.empty())
    context.detail(std::to_string(suspected.size()) +
                   (suspected.size() == 1 ? " label is suspected to be wrong"
                                          : " labels are suspected to be wrong") +
                   ": suspected_labels.csv");
  if (samples.trained > 0)
    context.say("suspected_labels.csv is unreliable: the network has seen " +
                std::to_string(samples.trained) + " of these images with their labels in training");
  return json;
}

void write(const Classified& classified, const ClassificationCurves& curves,
           const ReportOptions& options, runner::RunContext& context) {
  const auto& [samples, metrics, classes, checkpoint, besides, values] = classified;
  nlohmann::ordered_json json = {{"epoch", checkpoint.epoch}, {"step", checkpoint.step}};
  json.update(to_json(metrics, classes));
  for (const auto& [name, value] : summary(curves)) json[name] = value;
  json.update(besides);
  if (options.suspects) json["suspected_labels"] = report_suspected(classified, context);
  json["skipped"] = samples.skipped;
  json["smoke"] = context.node().smoke;
  // Class names come from folder names, which need not be UTF-8.
  const auto replace = nlohmann::ordered_json::error_handler_t::replace;
  runner::write_atomically(runner::NodeLayout(context.node().folder).metrics(),
                           json.dump(2, ' ', false, replace) + "\n");
  runner::write_atomically(context.node().folder / "evaluation_results.json",
                           evaluation_results(samples, metrics, classes));
  runner::write_atomically(runner::NodeLayout(context.node().folder).curves(),
                           to_json(curves, classes).dump(-1, ' ', false, replace) + "\n");
  runner::write_atomically(context.node().folder / "report.txt", report_text(metrics, classes));
  if (metrics.confusion.classes() <= kLargestMatrix) {
    runner::write_atomically(context.node().folder / "confusion_matrix.csv",
                             confusion_csv(metrics.confusion, classes));
  }
  if (options.csv)
    runner::write_atomically(context.node().folder / "predictions.csv",
                             predictions_csv(samples, classes));
}

}  // namespace

ReportOptions read_report_options(runner::ConfigReader& reader) {
  ReportOptions options;
  reader.read("top_k", options.top_k);
  reader.read("csv", options.csv);
  options.suspects = options.csv;
  std::ranges::sort(options.top_k);
  return options;
}

runner::Outputs report_classification(const Classified& classified, const ReportOptions& options,
                                      runner::RunContext& context) {
  const auto& [samples, metrics, classes, checkpoint, besides, values] = classified;
  const ClassificationCurves curves = classification_curves(
      samples.logits, samples.labels, options.calibration_bins, samples.predicted);
  write(classified, curves, options, context);
  const auto numbers = std::make_shared<Metrics>();
  numbers->values = summary(metrics);
  for (auto& value : summary(curves)) numbers->values.push_back(std::move(value));
  std::ranges::copy(values, std::back_inserter(numbers->values));
  for (const auto& [name, value] : numbers->values)
    context.metric("evaluate/" + name, value, checkpoint.step);
  const auto predictions = std::make_shared<Predictions>();
  predictions->names = samples.names;
  predictions->scores = shares_of_rows(samples.logits);
  predictions->labels = samples.labels;
  predictions->classes = classes;

  say_left_out(options.top_k, metrics.confusion.classes(), context);
  if (metrics.confusion.classes() > kLargestMatrix) {
    context.say("the confusion matrix is left out: more than " + std::to_string(kLargestMatrix) +
                " classes");
  }
  if (samples.skipped > 0) {
    context.say(std::to_string(samples.skipped) +
                " samples were skipped because they could not be read");
  }
  context.say(headline(metrics));
  return {{"metrics", numbers}, {"predictions", predictions}};
}

namespace {

using Json = nlohmann::ordered_json;

Json row(const ClassQuality& quality, std::int64_t support) {
  return {{"precision", quality.precision},
          {"recall", quality.recall},
          {"f1-score", quality.f1},
          {"support", static_cast<double>(support)}};
}

}  // namespace

Json report_dict(const ClassificationMetrics& metrics, const std::vector<std::string>& classes) {
  Json report = Json::object();
  for (std::size_t label = 0; label < classes.size(); ++label) {
    report[classes[label]] =
        row(metrics.of_class[label], metrics.confusion.support(static_cast<std::int64_t>(label)));
  }
  report["accuracy"] = metrics.top1;
  report["macro avg"] = row(metrics.macro, metrics.confusion.samples());
  report["weighted avg"] = row(metrics.weighted, metrics.confusion.samples());
  return report;
}

std::string evaluation_results(const ClassifiedSamples& samples,
                               const ClassificationMetrics& metrics,
                               const std::vector<std::string>& classes) {
  Json predictions = Json::array(), labels = Json::array();
  for (std::int64_t i = 0; i < samples.logits.size(0); ++i) {
    predictions.push_back(samples.predicted.empty()
                              ? class_scores(samples.logits, i).predicted()
                              : samples.predicted[static_cast<std::size_t>(i)]);
    labels.push_back(samples.labels[i].item<std::int64_t>());
  }
  const Json fields = {{"test_loss", metrics.log_loss},
                       {"test_accuracy", metrics.top1},
                       {"predictions", std::move(predictions)},
                       {"labels", std::move(labels)},
                       {"confusion_matrix", to_json(metrics.confusion)},
                       {"classification_report", report_dict(metrics, classes)}};
  std::string text;
  for (const auto& [name, value] : fields.items()) {
    text += (text.empty() ? "{\n  " : ",\n  ") + Json(name).dump() + ": " +
            value.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  return text + "\n}\n";
}

}  // namespace stages
