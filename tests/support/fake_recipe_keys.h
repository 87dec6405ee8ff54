#pragma once

#include <map>
#include <string>
#include <vector>

#include "runner/parent/keys/recipe_keys.h"
#include "runner/shared/text/join.h"

namespace runner {

/// RecipeKeys with answers that a test sets; by default, a schema that declares no keys and accepts
/// any.
class FakeRecipeKeys final : public NoSchema {
 public:
  std::map<std::string, Value> defaults = {};  ///< of the declared keys, by dotted path
  std::vector<std::string> kinds = {};         ///< kinds that have any other key
  bool accepts_more = true;                    ///< accepts keys that are not declared
  std::vector<OtherName> names = {};
  Diagnostics errors = {};    ///< of every recipe; without errors, all defaults of
                              ///< keys at the top are filled in
  mutable int validated = 0;  ///< number of recipes

  std::optional<Value> declared(const Value&, Path path) const override {
    const auto found = defaults.find(dotted(path));
    return found == defaults.end() ? std::nullopt : std::optional<Value>(found->second);
  }
  std::vector<std::string> declared_keys(const Value&, Path path) const override {
    std::vector<std::string> keys;
    const std::string start = path.empty() ? "" : dotted(path) + ".";
    for (const auto& [key, value] : defaults) {
      if (key.starts_with(start))
        keys.push_back(key.substr(start.size(), key.find('.', start.size()) - start.size()));
    }
    return keys;
  }
  bool may_add(const Value&, Path) const override { return accepts_more; }
  std::vector<std::string> other_kinds(const Value&, Path path) const override {
    return defaults.contains(dotted(path)) ? std::vector<std::string>() : kinds;
  }
  std::vector<OtherName> other_names() const override { return names; }
  Diagnostics validate(Value& recipe) const override {
    ++validated;
    if (!errors.empty()) return errors;
    for (const auto& [key, value] : defaults) {
      if (key.find('.') == key.npos && !recipe.find(key))
        recipe.map()->push_back({key, recipe.where, value});
    }
    return {};
  }

 private:
  static std::string dotted(Path path) { return join({path.begin(), path.end()}, "."); }
};

}  // namespace runner
