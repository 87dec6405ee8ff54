#include "runner/parent/report/recorded_evaluation.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "runner/shared/disk/file_system.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/value/json_fields.h"
#include "runner/shared/value/parse_json.h"

namespace runner {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using Fields = JsonFields<Json>;

constexpr std::size_t kLargestResults = 256 << 20;

using Damage = std::runtime_error;  // what is wrong with a file

/// An object in a file.
Fields fields_of(const Json& json) { return {json, "it"}; }
Fields fields_of(const Fields& fields, const std::string& key) { return {fields.at(key), "its '" + key + "'"}; }

double share(const Fields& fields, std::string_view key) {
  const double value = fields.number(key);
  if (!(value >= 0 && value <= 1 + 1e-9)) throw Damage("'" + std::string(key) + "' is not between 0 and 1");
  return value;
}

std::int64_t whole(const Json& value, const std::string& what) {
  constexpr double kMost = 1e12;  // so that sums of them are counts too
  if (!value.is_number_integer() || value < 0 || value.get<double>() > kMost) throw Damage(what + " is not a count");
  return value;
}

std::vector<std::vector<std::int64_t>> matrix(const Json& json, std::size_t classes) {
  std::vector<std::vector<std::int64_t>> rows;
  if (json.is_null()) return rows;
  if (!json.is_array() || json.size() != classes) throw Damage("'confusion_matrix' is not classes x classes");
  for (const Json& row : json) {
    if (!row.is_array() || row.size() != classes) throw Damage("'confusion_matrix' is not classes x classes");
    rows.emplace_back();
    for (const Json& cell : row) rows.back().push_back(whole(cell, "a cell of 'confusion_matrix'"));
  }
  return rows;
}

void take_metrics(const Json& json, RecordedEvaluation& result) {
  const Fields fields = fields_of(json), interval = fields_of(fields, "top1_interval");
  result.accuracy = share(fields, "top1");
  result.low = share(interval, "low");
  result.high = share(interval, "high");
  result.mean_per_class = share(fields, "mean_per_class");
  result.loss = fields.number("log_loss");
  result.samples = whole(fields.at("samples"), "'samples'");
  result.is_smoke = fields.flag("smoke");
  if (json.contains("accuracies")) {
    for (const Json& one : fields.list("accuracies")) {
      if (!one.is_number() || !(one.get<double>() >= 0 && one.get<double>() <= 1))
        throw Damage("one of its 'accuracies' is not between 0 and 1");
      result.episodes.push_back(one.get<double>());
    }
    result.drawn = fields.text("drawn");
  }
  for (const Json& item : fields.list("per_class")) {
    const Fields one = fields_of(item);
    result.classes.push_back(
        {one.text("class"), share(one, "precision"), share(one, "recall"), whole(one.at("support"), "'support'")});
  }
  result.confusion = matrix(fields.at("confusion_matrix"), result.classes.size());
  if (json.contains("models")) {
    for (const Json& item : fields.list("models")) {
      const Fields one = fields_of(item);
      RecordedEvaluation::BaseModel& model = result.models.emplace_back();
      model.name = one.text("model");
      if (one.has("accuracy")) model.accuracy = share(one, "accuracy");
      if (!one.has("quadratic_kappa")) continue;
      model.kappa = one.number("quadratic_kappa");
      if (!(std::abs(*model.kappa) <= 1)) throw Damage("'quadratic_kappa' of one of its 'models' is not a kappa");
    }
  }
  if (!json.contains("pairs")) return;
  const auto number_of = [&](const std::string& name) {
    const auto found = std::ranges::find(result.classes, name, &RecordedEvaluation::Class::name);
    if (found == result.classes.end()) throw Damage("one of its 'pairs' has an unknown class");
    return static_cast<std::size_t>(found - result.classes.begin());
  };
  for (const Json& item : fields.list("pairs")) {
    const Fields pair = fields_of(item);
    result.pairs.push_back({number_of(pair.text("first")), number_of(pair.text("second")),
                            whole(pair.at("samples"), "'samples' of a pair"), std::nullopt});
    if (!pair.at("accuracy").is_null()) result.pairs.back().accuracy = share(pair, "accuracy");
  }
}

RecordedCurve curve(const Fields& fields) {
  const Json &rates = fields.list("fpr"), &hits = fields.list("tpr");
  if (rates.size() != hits.size() || rates.size() < 2) throw Damage("'fpr' and 'tpr' are not a curve");
  RecordedCurve result{fields.has("class") ? fields.text("class") : "", share(fields, "auc"), {}};
  for (std::size_t i = 0; i < rates.size(); ++i) {
    const Json point = {{"fpr", rates[i]}, {"tpr", hits[i]}};
    result.points.emplace_back(share(fields_of(point), "fpr"), share(fields_of(point), "tpr"));
  }
  return result;
}

void take_curves(const Json& json, RecordedEvaluation& result) {
  const Fields fields = fields_of(json), roc = fields_of(fields, "roc");
  if (!roc.at("macro").is_null()) result.macro = curve(fields_of(roc, "macro"));
  if (!roc.at("micro").is_null()) result.micro = curve(fields_of(roc, "micro"));
  for (const Json& one : roc.list("classes")) result.class_curves.push_back(curve(fields_of(one)));
  result.has_curves = true;
  if (fields.at("calibration").is_null()) return;  // it was not to be measured
  const Fields calibration = fields_of(fields, "calibration");
  result.calibration_error = share(calibration, "error");
  for (const Json& item : calibration.list("bins")) {
    const Fields bin = fields_of(item);
    result.bins.push_back({share(bin, "low"), share(bin, "high"), whole(bin.at("count"), "'count'"),
                           share(bin, "confidence"), share(bin, "accuracy")});
  }
}

template <typename Take>
std::optional<Diagnostic> read(const fs::path& path, const fs::path& run, const Take& take) {
  try {
    const auto bytes = real_file_system().read(path, kLargestResults);
    if (!bytes) throw Damage("it is too large, or may not be read");
    const Json json = parse_json<Json>(*bytes);
    take(json);
    return std::nullopt;
  } catch (const Damage& damage) {
    return Diagnostic{ErrorCode::kDamagedRecord,
                      {},
                      "",
                      "'" + path.string() + "' is damaged: " + damage.what(),
                      "evaluate the run again with `retort evaluate " + run.string() + "`"};
  }
}

}  // namespace

Result<RecordedEvaluation> read_evaluation(const fs::path& folder, const std::string& node) {
  RecordedEvaluation result;
  result.node = node;
  const NodeLayout own = RunLayout(folder).node(node);
  const auto take = [&](const Json& json) { take_metrics(json, result); };
  if (auto damage = read(own.metrics(), folder, take)) return *std::move(damage);
  if (!real_file_system().is_file(own.curves())) return result;
  const auto add = [&](const Json& json) { take_curves(json, result); };
  if (auto damage = read(own.curves(), folder, add)) return *std::move(damage);
  return result;
}

std::optional<RecordedMeasures> read_measures(const fs::path& folder, const std::string& node) {
  const auto bytes = real_file_system().read(RunLayout(folder).node(node).metrics(), kLargestResults);
  const Json json = bytes ? parse_json(*bytes) : Json();
  if (!json.is_object() || !json.contains("smoke") || !json["smoke"].is_boolean()) return std::nullopt;
  for (const char* of_classes : {"top1", "top1_interval", "mean_per_class", "per_class", "confusion_matrix"})
    if (json.contains(of_classes)) return std::nullopt;
  return RecordedMeasures{.node = node, .title = node, .is_smoke = json["smoke"]};
}

std::vector<std::string> evaluated_nodes(const fs::path& folder) {
  const FileSystem& files = real_file_system();
  const RunLayout layout(folder);
  std::vector<std::string> nodes = files.list(layout.nodes());
  std::erase_if(nodes, [&](const std::string& node) { return !files.is_file(layout.node(node).metrics()); });
  return nodes;
}

}  // namespace runner
