#include "runner/report/recorded_evaluation.h"

#include <cmath>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "runner/disk/file_system.h"
#include "runner/stage/run_layout.h"

namespace runner {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::size_t kLargestResults = 256 << 20;

/// What is wrong with a file.
struct Damage : std::runtime_error {
  using std::runtime_error::runtime_error;
};

const Json& field(const Json& object, const std::string& key) {
  const auto found = object.find(key);
  if (!object.is_object() || found == object.end()) throw Damage("it has no '" + key + "'");
  return *found;
}

double number(const Json& object, const std::string& key) {
  const Json& value = field(object, key);
  if (!value.is_number()) throw Damage("'" + key + "' is no number");
  return value;
}

double share(const Json& object, const std::string& key) {
  const double value = number(object, key);
  if (!(value >= 0 && value <= 1 + 1e-9)) throw Damage("'" + key + "' is not between 0 and 1");
  return value;
}

std::int64_t whole(const Json& value, const std::string& what) {
  constexpr double kMost = 1e12;  // so that sums of them are counts too
  if (!value.is_number_integer() || value < 0 || value.get<double>() > kMost) throw Damage(what + " is no count");
  return value;
}

const Json& list(const Json& object, const std::string& key) {
  const Json& value = field(object, key);
  if (!value.is_array()) throw Damage("'" + key + "' is no list");
  return value;
}

std::string text_field(const Json& object, const std::string& key) {
  const Json& value = field(object, key);
  if (!value.is_string()) throw Damage("'" + key + "' is no text");
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
  result.accuracy = share(json, "top1");
  result.low = share(field(json, "top1_interval"), "low");
  result.high = share(field(json, "top1_interval"), "high");
  result.mean_per_class = share(json, "mean_per_class");
  result.loss = number(json, "log_loss");
  result.samples = whole(field(json, "samples"), "'samples'");
  const Json& smoke = field(json, "smoke");
  result.is_smoke = smoke.is_boolean() && smoke.get<bool>();
  for (const Json& one : list(json, "per_class")) {
    result.classes.push_back({text_field(one, "class"), share(one, "precision"), share(one, "recall"),
                              whole(field(one, "support"), "'support'")});
  }
  result.confusion = matrix(field(json, "confusion_matrix"), result.classes.size());
}

RecordedCurve curve(const Json& json) {
  const Json &rates = list(json, "fpr"), &hits = list(json, "tpr");
  if (rates.size() != hits.size() || rates.size() < 2) throw Damage("'fpr' and 'tpr' are no curve");
  RecordedCurve result{json.contains("class") ? text_field(json, "class") : "", share(json, "auc"), {}};
  for (std::size_t i = 0; i < rates.size(); ++i) {
    const Json point = {{"fpr", rates[i]}, {"tpr", hits[i]}};
    result.points.emplace_back(share(point, "fpr"), share(point, "tpr"));
  }
  return result;
}

void take_curves(const Json& json, RecordedEvaluation& result) {
  const Json &roc = field(json, "roc"), &calibration = field(json, "calibration");
  if (!field(roc, "macro").is_null()) result.macro = curve(roc["macro"]);
  if (!field(roc, "micro").is_null()) result.micro = curve(roc["micro"]);
  for (const Json& one : list(roc, "classes")) result.class_curves.push_back(curve(one));
  result.calibration_error = share(calibration, "error");
  for (const Json& bin : list(calibration, "bins")) {
    result.bins.push_back({share(bin, "low"), share(bin, "high"), whole(field(bin, "count"), "'count'"),
                           share(bin, "confidence"), share(bin, "accuracy")});
  }
  result.has_curves = true;
}

template <typename Take>
std::optional<Diagnostic> read(const fs::path& path, const fs::path& run, const Take& take) {
  try {
    const auto bytes = real_file_system().read(path, kLargestResults);
    if (!bytes) throw Damage("it is too large, or may not be read");
    const Json json = Json::parse(*bytes, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object()) throw Damage("it is no JSON object");
    take(json);
    return std::nullopt;
  } catch (const Damage& damage) {
    return Diagnostic{ErrorCode::kDamagedRecord,
                      {},
                      "",
                      "'" + path.string() + "' is damaged: " + damage.what(),
                      "evaluate the run again: retort evaluate " + run.string()};
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

std::vector<std::string> evaluated_nodes(const fs::path& folder) {
  const FileSystem& files = real_file_system();
  const RunLayout layout(folder);
  std::vector<std::string> nodes = files.list(layout.nodes());
  std::erase_if(nodes, [&](const std::string& node) { return !files.is_file(layout.node(node).metrics()); });
  return nodes;
}

}  // namespace runner
