// For every x-effective-when of every schema: searches for a recipe in which the condition is not
// met, and checks that the option is reported to have no effect for that reason. New declarations
// in schemas are tested automatically.

#include <algorithm>
#include <regex>

#include <gtest/gtest.h>

#include "runner/parent/cli/prepare.h"
#include "runner/parent/compile/option_walk.h"
#include "tests/support/recipe_states.h"

namespace runner {
namespace {

/// An option with x-effective-when, and how to reach it.
struct DeclaredOption {
  std::vector<std::string> path;  ///< from the recipe's root
  const SchemaNode* schema = nullptr;
  Words kinds = {};  ///< overrides that choose the kinds of the mappings around it
};

void collect(const SchemaNode& schema, const DeclaredOption& at,
             std::vector<DeclaredOption>& found) {
  const SchemaNode& node = followed(schema);
  for (const auto* parts : {&node.all_of, &node.any_of, &node.one_of}) {
    for (const SchemaNode* part : *parts) collect(*part, at, found);
  }
  if (node.kinds_in && *node.kinds_in != "*") {
    for (const KindSchema& kind : node.kinds) {
      DeclaredOption below = at;
      below.kinds.push_back(dotted(at.path) + "=" + chosen_kind(kind));
      collect(kind.schema(), below, found);
    }
  }
  for (const NamedSchema& property : node.properties) {
    DeclaredOption below = at;
    below.path.push_back(property.name);
    below.schema = property.schema;
    if (!effects_of(*property.schema).empty()) found.push_back(below);
    collect(*property.schema, below, found);
  }
}

/// Returns "pointer: message" for each option without effect; nullopt if the recipe is invalid.
std::optional<Words> idle_in(const std::string& recipe, const Words& overrides) {
  Sources sources;
  const auto prepared = prepare_text("schema: 1\n" + recipe, overrides, shipped_schemas(), sources);
  if (!prepared) return std::nullopt;
  Words lines;
  for (const Diagnostic& one :
       options_without_effect(prepared->recipe.resolved, prepared->graph, shipped_schemas()))
    lines.push_back(one.pointer + ": " + one.message);
  return lines;
}

/// True if some variant of the recipe reports this effect's reason for the option.
bool is_said(const std::string& recipe, const DeclaredOption& option, const Effect& effect,
             const Graph& graph) {
  const std::string reason = effect.why.substr(0, effect.why.find('{'));
  std::string pointer;
  for (const std::string& part : option.path) pointer = pointer_to(pointer, part);
  std::string conditions;  // of all effects of the option, each with its own reason
  for (const Effect& one : effects_of(*option.schema)) conditions += one.when + " ";
  const bool depends_on_itself =
      std::regex_search(effect.when, std::regex("\\b" + option.path.back() + "\\b"));
  const std::string said = ": '" + option.path.back() + "' has no effect: " + reason;
  Words names = looked_at(conditions, {option.path.begin(), option.path.end() - 1}, graph);
  std::erase(names, dotted(option.path));
  for (const Words& state : states(conditions, names)) {
    for (const std::string& value : values_of(*option.schema)) {
      Words overrides = option.kinds;
      overrides.insert(overrides.end(), state.begin(), state.end());
      overrides.push_back(dotted(option.path) + "=" + value);
      const auto lines = idle_in(recipe, overrides);
      if (!lines) continue;
      if (std::ranges::any_of(*lines, [&](const std::string& line) {
            return line.starts_with(pointer) && line.find(said) != line.npos;
          }))
        return true;
      if (!depends_on_itself) break;
    }
  }
  return false;
}

void expect_all_said(const Words& recipes, const std::string& root, const SchemaNode& schema) {
  std::vector<Graph> graphs;
  for (const std::string& recipe : recipes) {
    Sources sources;
    auto prepared = prepare_text("schema: 1\n" + recipe, {}, shipped_schemas(), sources);
    ASSERT_TRUE(prepared) << recipe << (prepared ? "" : prepared.errors().front().message);
    graphs.push_back(std::move(prepared->graph));
  }
  std::vector<DeclaredOption> options;
  collect(schema, {{root}}, options);
  for (const DeclaredOption& option : options) {
    for (const Effect& effect : effects_of(*option.schema)) {
      bool found = false;
      for (std::size_t i = 0; i < recipes.size() && !found; ++i)
        found = is_said(recipes[i], option, effect, graphs[i]);
      EXPECT_TRUE(found) << dotted(option.path) << ": '" << effect.when
                         << "' was not broken by any state that was tried:\n"
                         << recipes.front() << "or the warning about no effect is missing";
    }
  }
}

class DeclaredEffects : public testing::TestWithParam<std::string> {};

TEST_P(DeclaredEffects, UnmetConditionsAreReported) {
  const Kind& kind = *shipped_schemas().kind(GetParam());
  const std::string root = kind.name == "data.features" ? "features" : kind.family;
  expect_all_said(recipes_with(kind), root, *shipped_schemas().node(kind.file));
}

Words names_of_kinds() {
  Words names;
  for (const Kind& kind : shipped_schemas().kinds()) names.push_back(kind.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Kinds, DeclaredEffects, testing::ValuesIn(names_of_kinds()),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::ranges::replace(name, '.', '_');
                           return name;
                         });

TEST(DeclaredEffectsInRecipes, UnmetConditionsAreReported) {
  const SchemaNode& recipe = *shipped_schemas().node("recipe.schema.json");
  for (const char* key : {"device", "sweep"})
    expect_all_said({"data: {kind: data.cub200, root: x}\n"}, key, *recipe.property(key));
}

}  // namespace
}  // namespace runner
