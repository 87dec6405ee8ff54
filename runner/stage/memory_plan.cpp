#include "runner/stage/memory_plan.h"

#include <stdexcept>

#include "runner/text/bytes.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const NamedBytes& named) {
  Json json = {{"name", named.name}, {"bytes", named.bytes}};
  if (!named.note.empty()) json["note"] = named.note;
  return json;
}

NamedBytes named_bytes(const Json& json) { return {json.at("name"), json.at("bytes"), json.value("note", "")}; }

Json to_json(const AliveTensor& tensor) {
  return {{"owner", tensor.owner}, {"name", tensor.name},   {"operation", tensor.operation},
          {"shape", tensor.shape}, {"dtype", tensor.dtype}, {"bytes", tensor.bytes}};
}

AliveTensor alive_tensor(const Json& json) {
  return {json.at("owner"), json.at("name"),  json.at("operation"),
          json.at("shape"), json.at("dtype"), json.at("bytes")};
}

Json to_json(const PhaseMark& mark) { return {{"phase", mark.phase}, {"point", mark.point}}; }

PhaseMark phase_mark(const Json& json) { return {json.at("phase"), json.at("point")}; }

Json to_json(const OptionEffect& effect) {
  Json json = {{"option", effect.option}, {"value", effect.value}, {"bytes", effect.bytes}};
  if (!effect.note.empty()) json["note"] = effect.note;
  return json;
}

OptionEffect option_effect(const Json& json) {
  return {json.at("option"), json.at("value"), json.at("bytes"), json.value("note", "")};
}

Json to_json(const PlanAlternative& alternative) {
  Json json = {{"overrides", alternative.overrides},
               {"exactness", alternative.exactness},
               {"predicted", alternative.predicted},
               {"relative_flops", alternative.relative_flops},
               {"relative_operations", alternative.relative_operations}};
  if (!alternative.refused.empty()) json["refused"] = alternative.refused;
  return json;
}

PlanAlternative alternative(const Json& json) {
  return {json.at("overrides"),      json.at("exactness"),      json.at("predicted"),
          json.at("relative_flops"), json.value("refused", ""), json.value("relative_operations", 1.0)};
}

template <typename T>
Json list(const std::vector<T>& items) {
  Json json = Json::array();
  for (const T& item : items) json.push_back(to_json(item));
  return json;
}

template <typename Read>
auto read_list(const Json& json, Read read) {
  std::vector<decltype(read(json))> items;
  for (const Json& item : json) items.push_back(read(item));
  return items;
}

}  // namespace

std::int64_t MemoryPlan::held_bytes() const {
  std::int64_t sum = 0;
  for (const NamedBytes& one : held) sum += one.bytes;
  return sum;
}

Json to_json(const MemoryPlan& plan) {
  Json json = {{"schema", 1},
               {"node", plan.node},
               {"device", plan.device},
               {"threads", plan.threads},
               {"predicted", plan.predicted},
               {"live", plan.live},
               {"reserved", plan.reserved},
               {"budget", plan.budget ? Json(*plan.budget) : Json(nullptr)},
               {"budget_from", plan.budget_from},
               {"fits", plan.fits()},
               {"peak", {{"phase", plan.peak_phase}, {"operation", plan.peak_operation}}},
               {"owners", list(plan.owners)},
               {"terms", list(plan.terms)},
               {"terms_version", plan.terms_version},
               {"held", list(plan.held)},
               {"largest", list(plan.largest)},
               {"curve", plan.curve},
               {"phases", list(plan.phases)},
               {"options", list(plan.options)},
               {"alternatives", list(plan.alternatives)},
               {"flops", plan.flops},
               {"operations", plan.operations},
               {"step", plan.step}};
  if (!plan.reuse.empty()) json["reuse"] = plan.reuse;
  return json;
}

MemoryPlan memory_plan_from_json(const Json& json) {
  try {
    MemoryPlan plan;
    plan.node = json.at("node");
    plan.device = json.at("device");
    plan.threads = json.at("threads");
    plan.live = json.at("live");
    plan.reserved = json.at("reserved");
    plan.predicted = json.at("predicted");
    if (!json.at("budget").is_null()) plan.budget = json["budget"].get<std::int64_t>();
    plan.budget_from = json.at("budget_from");
    plan.peak_phase = json.at("peak").at("phase");
    plan.peak_operation = json.at("peak").at("operation");
    plan.owners = read_list(json.at("owners"), named_bytes);
    plan.terms = read_list(json.at("terms"), named_bytes);
    plan.terms_version = json.at("terms_version");
    plan.held = read_list(json.value("held", Json::array()), named_bytes);
    plan.largest = read_list(json.at("largest"), alive_tensor);
    plan.curve = json.at("curve").get<std::vector<std::int64_t>>();
    plan.phases = read_list(json.at("phases"), phase_mark);
    plan.options = read_list(json.at("options"), option_effect);
    plan.alternatives = read_list(json.at("alternatives"), alternative);
    plan.flops = json.at("flops");
    plan.operations = json.value("operations", std::int64_t{0});
    plan.step = json.at("step");
    plan.reuse = json.value("reuse", "");
    return plan;
  } catch (const Json::exception& error) {
    throw std::runtime_error(std::string("not a memory plan: ") + error.what());
  }
}

Json run_peak(const MemoryPlan& plan) {
  return {{"node", plan.node}, {"predicted", plan.predicted}, {"held", plan.held_bytes()}};
}

std::string held_text(const MemoryPlan& plan) { return size_text(plan.held_bytes()) + " of it held by earlier nodes"; }

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t size : shape) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return "(" + text + ")";
}

std::string override_text(const std::vector<std::string>& overrides) {
  std::string text;
  for (const std::string& one : overrides) text += (text.empty() ? "" : " ") + one;
  return text.empty() ? "as it is" : text;
}

std::string tensor_text(const AliveTensor& tensor) {
  return (tensor.name.empty() ? tensor.owner : tensor.name) + " " + shape_text(tensor.shape) + " " + tensor.dtype +
         ", " + size_text(tensor.bytes);
}

}  // namespace runner
