#include "runner/parent/record/hparams.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include <nlohmann/json.hpp>

#include "runner/parent/record/record_text.h"
#include "runner/parent/record/summary_value.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/text/finite_number.h"
#include "runner/shared/value/flat_json.h"
#include "runner/shared/value/parse_json.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;

/// Keys of a recipe that do not concern the result of a run.
constexpr std::array<std::string_view, 6> kNotCompared = {"aliases", "hooks",  "notice",
                                                          "run",     "schema", "sweep"};

bool is_compared(std::string_view key) {
  return std::ranges::count(kNotCompared, key.substr(0, key.find('.'))) == 0;
}

/// Returns "train.epochs" for "/train/epochs".
std::string key_of_path(std::string pointer) {
  std::ranges::replace(pointer, '/', '.');
  return pointer.substr(std::min<std::size_t>(pointer.size(), 1));
}

bool is_number_text(const std::string& text) { return finite_number(text).has_value(); }
bool is_flag(const std::string& text) { return text == "true" || text == "false"; }

/// Returns a google.protobuf.Value.
ProtobufMessage as_value(const std::string& text) {
  if (const auto number = finite_number(text)) return ProtobufMessage().float64(2, *number);
  if (is_flag(text)) return ProtobufMessage().number(4, text == "true" ? 1 : 0);
  return ProtobufMessage().text(3, text);
}

/// Returns an HParamInfo.
ProtobufMessage info_of(const std::string& key, const std::vector<std::string>& values) {
  constexpr std::uint64_t kText = 1, kFlag = 2, kNumber = 3;  // DataType
  ProtobufMessage info = ProtobufMessage().text(1, key);
  if (!values.empty() && std::ranges::all_of(values, is_number_text)) {
    std::vector<double> numbers;
    for (const std::string& value : values) numbers.push_back(*finite_number(value));
    const auto [least, most] = std::ranges::minmax(numbers);
    info.number(4, kNumber).message(6, ProtobufMessage().float64(1, least).float64(2, most));
  } else {
    ProtobufMessage list;
    for (const std::string& value : values) list.message(1, as_value(value));
    info.number(4, std::ranges::all_of(values, is_flag) ? kFlag : kText).message(5, list);
  }
  return info.number(7, values.size() > 1 ? 1 : 0);
}

/// Returns an HParamsPluginData of version 0 with one member.
ProtobufMessage plugin_data(std::uint64_t field, const ProtobufMessage& member) {
  return ProtobufMessage().message(field, member);
}

}  // namespace

Hparams overridden_options(const Json& recipe, const Json& origins,
                           const std::vector<std::string>& typed) {
  Hparams values, overridden;
  for (auto& [key, value] : flat_json(recipe)) values.emplace(key, std::move(value));
  if (!origins.is_object()) return {};
  for (const auto& [pointer, origin] : origins.items()) {
    if (!origin.is_object() || origin.value("from", Json()) != "override") continue;
    std::string key = key_of_path(pointer);  // the elements of a list are one value
    while (!values.contains(key) && key.find('.') != key.npos) key.resize(key.rfind('.'));
    if (values.contains(key)) overridden[key] = values.at(key);
  }
  for (const std::string& text : typed) {
    const std::size_t begin = text.find_first_not_of('+'), equals = text.find('=');
    if (begin == text.npos || equals == text.npos || begin > equals) continue;
    const std::string key = text.substr(begin, equals - begin), value = text.substr(equals + 1);
    const auto section = recipe.is_object() ? recipe.find(key) : recipe.end();
    if (section != recipe.end() && section->is_object() && !value.starts_with('{'))
      overridden[key] = value;
  }
  std::erase_if(overridden, [](const auto& one) { return !is_compared(one.first); });
  return overridden;
}

Hparams overridden_options(const std::filesystem::path& run, const Json& recipe) {
  Hparams options;
  const RunLayout layout(run);
  std::filesystem::path records = layout.records();
  for (int number = 1; std::filesystem::is_directory(records); records = layout.resume(number++)) {
    std::vector<std::string> typed;
    for (const Json& one : record_from_yaml(records / RunRecord::kOverrides))
      if (one.is_string()) typed.push_back(one);
    const Json origins = parse_json<Json>(record_text(records / RunRecord::kOrigins));
    for (auto& [key, value] : overridden_options(recipe, origins, typed)) options[key] = value;
  }
  return options;
}

ProtobufMessage experiment_value(const HparamsExperiment& experiment, double time) {
  ProtobufMessage message;
  message.text(6, experiment.name).float64(3, time);
  for (const auto& [key, values] : experiment.options) message.message(4, info_of(key, values));
  for (const auto& [node, metric] : experiment.metrics) {
    const ProtobufMessage name = ProtobufMessage().text(1, node).text(2, metric);
    message.message(5, ProtobufMessage().message(1, name));
  }
  return hparams_value("_hparams_/experiment", plugin_data(2, message));
}

ProtobufMessage session_start_value(const Hparams& hparams, double time) {
  ProtobufMessage message;
  for (const auto& [key, value] : hparams)
    message.message(1, ProtobufMessage().text(1, key).message(2, as_value(value)));
  return hparams_value("_hparams_/session_start_info", plugin_data(3, message.float64(5, time)));
}

ProtobufMessage session_end_value(bool is_finished, double time) {
  constexpr std::uint64_t kSuccess = 1, kFailure = 2;  // Status
  const ProtobufMessage message =
      ProtobufMessage().number(1, is_finished ? kSuccess : kFailure).float64(2, time);
  return hparams_value("_hparams_/session_end_info", plugin_data(4, message));
}

}  // namespace runner
