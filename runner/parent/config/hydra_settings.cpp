#include "runner/parent/config/hydra_settings.h"

#include <functional>
#include <map>

#include "runner/shared/text/suggest.h"

namespace runner {

using std::filesystem::path;

std::optional<std::string> hydra_counterpart(const std::string& hydra_key) {
  static const std::map<std::string, std::string> kCounterparts = {
      {"hydra.run.dir", "run.dir"},
      {"hydra.sweep.dir", "sweep.dir"},
      {"hydra.sweeper.params", "sweep.params"},
      {"hydra.job.name", "name"}};
  const auto found = kCounterparts.find(hydra_key);
  return found == kCounterparts.end() ? std::nullopt : std::optional(found->second);
}

bool is_foreign_setting(const std::string& key) {
  return key.starts_with("hydra.") && key != kSearchPath && !hydra_counterpart(key);
}

Diagnostic foreign_setting(const Override& override) {
  const std::vector<std::string> known = {"hydra.run.dir", "hydra.sweep.dir",
                                          "hydra.sweeper.params", "hydra.job.name",
                                          "hydra.searchpath"};
  const std::string near_name = did_you_mean(override.key, known);
  return {ErrorCode::kOverrideUnknownKey, override.key_where, "",
          "'" + override.key + "' is one of Hydra's own settings and is not supported",
          near_name.empty() ? "the supported ones are hydra.run.dir, hydra.sweep.dir, "
                              "hydra.sweeper.params, hydra.job.name and "
                              "hydra.searchpath"
                            : near_name};
}

void add_hydra_search_path(std::span<const Override> overrides, std::vector<path>& folders,
                           Diagnostics& errors) {
  for (const Override& override : overrides) {
    if (override.key != kSearchPath) continue;
    const Value::List* list = override.value ? override.value->list() : nullptr;
    for (const Value& item : list ? *list : Value::List{}) {
      if (item.text() && item.text()->starts_with("file://"))
        folders.push_back(item.text()->substr(7));
      else if (item.text() && item.text()->find("://") == std::string::npos)
        folders.push_back(*item.text());
      else list = nullptr;
    }
    if (list) continue;
    errors.push_back({ErrorCode::kOverrideSyntax, override.where, "",
                      "hydra.searchpath takes a list of folders",
                      "write hydra.searchpath=[dir,file:///dir], or --config-dir DIR"});
  }
}

void take_hydra_block(Value& recipe, bool has_schema, Diagnostics& warnings) {
  const Value* block = recipe.find("hydra");
  if (!block) return;
  const Value hydra = *block;
  std::erase_if(*recipe.map(), [](const Entry& entry) { return entry.key == "hydra"; });
  const std::function<void(const std::string&, const Value&)> take = [&](const std::string& key,
                                                                         const Value& value) {
    if (const auto target = hydra_counterpart(key)) {
      if (!has_schema || at_key(recipe, *target)) return;
      const std::size_t dot = target->find('.');
      Value set = value;
      if (dot != target->npos)
        set = Value{Value::Map{{target->substr(dot + 1), value.where, value}}, value.where};
      recipe.map()->push_back({target->substr(0, dot), value.where, std::move(set)});
    } else if (value.map()) {
      for (const Entry& entry : *value.map()) take(key + "." + entry.key, entry.value);
    } else if (has_schema) {
      warnings.push_back({ErrorCode::kOverrideUnknownKey,
                          value.where,
                          "",
                          "'" + key + "' is one of Hydra's own settings and has no effect here",
                          "",
                          {},
                          Severity::kWarning});
    }
  };
  take("hydra", hydra);
}

}  // namespace runner
