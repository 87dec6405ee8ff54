#include "runner/parent/record/record_changes.h"

#include <algorithm>
#include <set>

#include <nlohmann/json.hpp>

#include "runner/parent/record/input_record.h"
#include "runner/shared/text/join.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;
using Weight = RecordChange::Weight;

constexpr const char* kJobVariable = "SLURM_JOB_ID";  // another one each time

/// Null where there is nothing at that place.
Json record_at(const Json& record, std::initializer_list<const char*> path) {
  const Json* at = &record;
  for (const char* key : path) {
    if (!at->is_object() || !at->contains(key)) return nullptr;
    at = &(*at)[key];
  }
  return *at;
}

std::string value_text(const Json& value) {
  if (value.is_null()) return "not set";
  return value.is_string() ? value.get<std::string>() : value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::set<std::string> listed_words(const Json& list) {
  std::set<std::string> words;
  if (!list.is_array()) return words;
  for (const Json& one : list)
    if (one.is_string()) words.insert(one.get<std::string>());
  return words;
}

std::string words_but(const std::set<std::string>& words, const std::set<std::string>& others) {
  std::vector<std::string> left;
  std::ranges::set_difference(words, others, std::back_inserter(left));
  return join(left, ", ");
}

class Changes {
 public:
  Changes(const Json& before, const Json& now) : before_(before), now_(now) {}

  void compare(const std::string& what, std::initializer_list<const char*> path) {
    const Json was = record_at(before_, path), is = record_at(now_, path);
    if (was.is_null() || is.is_null() || was == is) return;
    add(what, "the " + what + " was " + value_text(was) + " and is now " + value_text(is));
  }

  void compare_instruction_sets() {
    const Json old_list = record_at(before_, {"cpu", "instruction_sets"});
    const Json list = record_at(now_, {"cpu", "instruction_sets"});
    if (!old_list.is_array() || !list.is_array()) return;
    const auto was = listed_words(old_list), is = listed_words(list);
    if (was == is) return;
    const std::string lost = words_but(was, is), gained = words_but(is, was);
    std::string text = "the processor";
    if (!lost.empty()) text += " lacks " + lost;
    if (!lost.empty() && !gained.empty()) text += " and";
    if (!gained.empty()) text += " has in addition " + gained;
    add("instruction sets", text + ": kernels may round otherwise");
  }

  void compare_variables() {
    const Json was = record_at(before_, {"variables"}), is = record_at(now_, {"variables"});
    if (!was.is_object() || !is.is_object()) return;
    std::set<std::string> names;
    for (const Json* variables : {&was, &is})
      for (const auto& [name, value] : variables->items()) names.insert(name);
    names.erase(kJobVariable);
    for (const std::string& name : names) {
      const Json old_value = record_at(was, {name.c_str()}), value = record_at(is, {name.c_str()});
      if (old_value != value)
        add("variable " + name,
            "the variable " + name + " was " + value_text(old_value) + " and is now " + value_text(value));
    }
  }

  void compare_inputs() {
    for (const InputChange& change : input_changes(record_at(before_, {"inputs"}), record_at(now_, {"inputs"})))
      changes_.push_back({Weight::kWhole, "input " + change.pointer, "the input " + change.pointer + " " + change.text,
                          change.pointer});
  }

  std::vector<RecordChange> take() { return std::move(changes_); }

 private:
  void add(const std::string& what, std::string text) {
    changes_.push_back({Weight::kBits, what, std::move(text), ""});
  }

  const Json &before_, &now_;
  std::vector<RecordChange> changes_;
};

}  // namespace

std::vector<RecordChange> environment_changes(const Json& before, const Json& now) {
  Changes changes(before, now);
  changes.compare_inputs();
  changes.compare("build", {"retort"});
  changes.compare("LibTorch", {"versions", "libtorch"});
  changes.compare("CUDA runtime", {"versions", "cuda_runtime"});
  changes.compare("compiler", {"versions", "compiler"});
  changes.compare("machine type", {"system", "machine"});
  changes.compare("processor", {"cpu", "model"});
  changes.compare_instruction_sets();
  changes.compare("device", {"device"});
  changes.compare("GPU", {"device_choice", "name"});
  changes.compare("GPU driver", {"device_choice", "driver"});
  changes.compare("number of threads", {"threads"});
  changes.compare("determinism", {"determinism"});
  changes.compare_variables();
  return changes.take();
}

std::vector<RecordChange> kind_changes(const Json& before, const Graph& graph) {
  std::vector<RecordChange> changes;
  std::set<std::string> said;
  for (const Json& node : record_at(before, {"nodes"})) {
    const Json id = record_at(node, {"id"}), kind = record_at(node, {"kind"}), version = record_at(node, {"version"});
    const auto known = std::ranges::find_if(graph.nodes, [&](const Node& one) { return id == one.id; });
    if (known == graph.nodes.end() || kind != known->kind || !version.is_number_integer()) continue;
    if (version == known->version || !said.insert(known->kind).second) continue;
    changes.push_back({Weight::kWhole, "kind " + known->kind,
                       "'" + known->kind + "' had version " + version.dump() + " and has now version " +
                           std::to_string(known->version) + ": the same options mean something else",
                       known->pointer});
  }
  return changes;
}

Json to_json(const std::vector<RecordChange>& changes) {
  Json list = Json::array();
  for (const RecordChange& change : changes)
    list.push_back(
        {{"what", change.what}, {"text", change.text}, {"weight", change.weight == Weight::kWhole ? "whole" : "bits"}});
  return list;
}

}  // namespace runner
