#include "runner/shared/stage/determinism.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runner/parent/compile/compile.h"
#include "runner/shared/graph/graph.h"
#include "tests/support/fake_schemas.h"

namespace runner {
namespace {

TEST(Determinism, OperationIsReadFromTheLibTorchMessage) {
  const std::string refusal =
      "put_ does not have a deterministic implementation, but you set "
      "'torch.use_deterministic_algorithms(True)'. You can turn off determinism just for this "
      "operation, or you can use the 'warn_only=True' "
      "option.";
  EXPECT_EQ(nondeterministic_operation(refusal), "put_");
  EXPECT_EQ(
      nondeterministic_operation("something above\n" + refusal + "\nException raised from here"),
      "put_");
  EXPECT_EQ(nondeterministic_operation("mat1 and mat2 cannot be multiplied"), std::nullopt);
  EXPECT_EQ(nondeterministic_operation(" does not have a deterministic implementation"),
            std::nullopt);
}

/// The determinism of a recipe with this line, and of the graph that is passed to the worker.
std::string recipe_determinism(const std::string& line) {
  Sources sources;
  const SchemaSet schemas = fake_schemas();
  const auto recipe = fake_recipe(line + "data: {kind: data.one}\n", schemas, sources);
  if (!recipe) return recipe.errors().front().message;
  const auto graph = compile(*recipe, schemas);
  return std::string(name(graph_from_json(to_json(*graph)).determinism));
}

TEST(Determinism, IsStrictByDefault) {
  EXPECT_EQ(recipe_determinism(""), "strict");
  EXPECT_EQ(recipe_determinism("determinism: strict\n"), "strict");
  EXPECT_EQ(recipe_determinism("determinism: warn\n"), "warn");
  EXPECT_EQ(recipe_determinism("determinism: 'off'\n"), "off");
}

TEST(Determinism, OffWithoutQuotesIsOff) {
  EXPECT_EQ(recipe_determinism("determinism: off\n"), "off");
}

TEST(Determinism, OtherValuesAreRejected) {
  EXPECT_THAT(recipe_determinism("determinism: strikt\n"), testing::HasSubstr("strikt"));
  EXPECT_THAT(recipe_determinism("determinism: true\n"), testing::HasSubstr("true"));
  auto json = to_json(Graph{.recipe = "a", .threads = {}, .device = "cpu", .nodes = {}});
  json["determinism"] = "perhaps";
  EXPECT_THROW(graph_from_json(json), std::runtime_error);
}

}  // namespace
}  // namespace runner
