#include "runner/shared/stage/memory_plan.h"

#include <cmath>

#include "runner/shared/text/units.h"
#include "runner/shared/value/json_fields.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;
using Fields = JsonFields<Json>;

/// Returns a string that to_json() omits if it is empty.
std::string text_or_none(const Fields& fields, std::string_view key) {
  return fields.has(key) ? fields.text(key) : "";
}

Json to_json(const NamedBytes& named) {
  Json json = {{"name", named.name}, {"bytes", named.bytes}};
  if (!named.note.empty()) json["note"] = named.note;
  return json;
}

NamedBytes named_bytes(const Json& json) {
  const Fields fields(json, "a part of the memory plan");
  return {fields.text("name"), fields.integer("bytes"), text_or_none(fields, "note")};
}

Json to_json(const AliveTensor& tensor) {
  return {{"owner", tensor.owner}, {"name", tensor.name},   {"operation", tensor.operation},
          {"shape", tensor.shape}, {"dtype", tensor.dtype}, {"bytes", tensor.bytes}};
}

AliveTensor alive_tensor(const Json& json) {
  const Fields fields(json, "a tensor of the memory plan");
  return {fields.text("owner"),     fields.text("name"),  fields.text("operation"),
          fields.integers("shape"), fields.text("dtype"), fields.integer("bytes")};
}

Json to_json(const PhaseMark& mark) { return {{"phase", mark.phase}, {"point", mark.point}}; }

PhaseMark phase_mark(const Json& json) {
  const Fields fields(json, "a phase of the memory plan");
  return {fields.text("phase"), static_cast<std::size_t>(fields.count("point"))};
}

Json to_json(const OptionEffect& effect) {
  Json json = {{"option", effect.option}, {"value", effect.value}, {"bytes", effect.bytes}};
  if (!effect.note.empty()) json["note"] = effect.note;
  return json;
}

OptionEffect option_effect(const Json& json) {
  const Fields fields(json, "an option of the memory plan");
  return {fields.text("option"), fields.text("value"), fields.integer("bytes"),
          text_or_none(fields, "note")};
}

Json to_json(const PlanAlternative& alternative) {
  Json json = {{"overrides", alternative.overrides},
               {"exactness", alternative.exactness},
               {"needed", alternative.needed},
               {"relative_flops", alternative.relative_flops},
               {"relative_operations", alternative.relative_operations}};
  if (!alternative.refused.empty()) json["refused"] = alternative.refused;
  return json;
}

/// Returns the needed bytes, which are called "predicted" in earlier records.
std::int64_t needed_bytes(const Fields& fields) {
  return fields.integer(fields.has("predicted") ? "predicted" : "needed");
}

PlanAlternative alternative(const Json& json) {
  const Fields fields(json, "an alternative in the memory plan");
  PlanAlternative result{fields.texts("overrides"), fields.text("exactness"), needed_bytes(fields),
                         fields.number("relative_flops"), text_or_none(fields, "refused")};
  if (fields.has("relative_operations"))
    result.relative_operations = fields.number("relative_operations");
  return result;
}

Json to_json(const PlanChoice& choice) {
  return {{"overrides", choice.overrides},
          {"exactness", choice.exactness},
          {"summary", choice.summary},
          {"whole", choice.whole},
          {"relative_time", choice.relative_time},
          {"time_model", choice.time_model},
          {"replayed", choice.is_replayed}};
}

PlanChoice plan_choice(const Json& json) {
  const Fields fields(json, "the choice of the memory plan");
  return {fields.texts("overrides"), fields.text("exactness"),       fields.text("summary"),
          fields.integer("whole"),   fields.number("relative_time"), fields.text("time_model"),
          fields.flag("replayed")};
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
               {"needed", plan.needed},
               {"live", plan.live},
               {"reserved", plan.reserved},
               {"budget", plan.budget ? Json(*plan.budget) : Json(nullptr)},
               {"budget_from", plan.budget_from},
               {"fits", plan.fits()},
               {"must_fit", plan.must_fit},
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
               {"traffic", plan.traffic},
               {"step", plan.step}};
  if (plan.moved > 0) json["moved"] = plan.moved;
  if (plan.choice) json["choice"] = to_json(*plan.choice);
  if (!plan.measured.empty()) json["measured"] = plan.measured;
  if (!plan.reuse.empty()) json["reuse"] = plan.reuse;
  return json;
}

MemoryPlan memory_plan_from_json(const Json& json) {
  const Fields fields(json, "the memory plan");
  const Fields peak(fields.object("peak"), "the peak of the memory plan");
  MemoryPlan plan;
  plan.node = fields.text("node");
  plan.device = fields.text("device");
  plan.threads = static_cast<int>(fields.integer("threads"));
  plan.live = fields.integer("live");
  plan.reserved = fields.integer("reserved");
  plan.needed = needed_bytes(fields);
  if (!fields.at("budget").is_null()) plan.budget = fields.integer("budget");
  plan.budget_from = fields.text("budget_from");
  plan.must_fit = !fields.has("must_fit") || fields.flag("must_fit");
  plan.peak_phase = peak.text("phase");
  plan.peak_operation = peak.text("operation");
  plan.owners = read_list(fields.list("owners"), named_bytes);
  plan.terms = read_list(fields.list("terms"), named_bytes);
  plan.terms_version = fields.text("terms_version");
  if (fields.has("held")) plan.held = read_list(fields.list("held"), named_bytes);
  plan.largest = read_list(fields.list("largest"), alive_tensor);
  plan.curve = fields.integers("curve");
  plan.phases = read_list(fields.list("phases"), phase_mark);
  plan.options = read_list(fields.list("options"), option_effect);
  plan.alternatives = read_list(fields.list("alternatives"), alternative);
  plan.flops = fields.number("flops");
  if (fields.has("operations")) plan.operations = fields.integer("operations");
  if (fields.has("traffic")) plan.traffic = fields.number("traffic");
  if (fields.has("moved")) plan.moved = fields.number("moved");
  plan.step = fields.at("step");
  if (fields.has("choice")) plan.choice = plan_choice(fields.object("choice"));
  plan.measured = text_or_none(fields, "measured");
  plan.reuse = text_or_none(fields, "reuse");
  return plan;
}

Json run_peak(const MemoryPlan& plan) {
  return {{"node", plan.node}, {"needed", plan.needed}, {"held", plan.held_bytes()}};
}

std::string measured_text(const MemoryPlan& plan) {
  return "measured by running real steps, since a dry run fails: " + plan.measured;
}

std::string choice_text(const MemoryPlan& plan) {
  const PlanChoice& choice = plan.choice.value();
  std::string text = !plan.fits()         ? "the choice that needs the least memory: "
                     : choice.is_replayed ? "chosen when the run started: "
                                          : "chosen: ";
  text += choice.summary;
  if (choice.overrides.empty()) return text;
  const std::string now = size_text(plan.needed), whole = size_text(choice.whole);
  text += ": " + now + (now == whole ? ", the same as without it" : " instead of " + whole);
  const long percent = std::lround(100 * (choice.relative_time - 1));
  text += percent >= 1 ? ", in about " + std::to_string(percent) + "% more time"
                       : ", in about the same time";
  return text + (choice.exactness == "bit" ? "; every bit of the result stays the same"
                                           : "; equal in exact arithmetic");
}

std::string held_text(const MemoryPlan& plan) {
  return size_text(plan.held_bytes()) + " of it held by earlier nodes";
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t size : shape) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return "(" + text + ")";
}

std::string override_text(const std::vector<std::string>& overrides) {
  std::string text;
  for (const std::string& one : overrides) text += (text.empty() ? "" : " ") + one;
  return text.empty() ? "as written" : text;
}

std::string tensor_text(const AliveTensor& tensor) {
  return (tensor.name.empty() ? tensor.owner : tensor.name) + " " + shape_text(tensor.shape) + " " +
         tensor.dtype + ", " + size_text(tensor.bytes);
}

}  // namespace runner
