#include "runner/parent/cli/prepare.h"

#include <cstdlib>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

Result<Composition> composed(const std::string& text, bool strict) {
  const TemporaryFolder folder;
  folder.write("a.yaml", text);
  NamedRecipe named;
  named.name = (folder.path() / "a.yaml").string();
  named.strict = strict;
  static Sources sources;
  const SchemaSet& schemas = shipped_schemas();
  return open_recipe(named, schemas, sources)->compose_once();
}

TEST(Prepare, StrictTurnsWarningsIntoErrors) {
  EXPECT_EQ(composed("seed: 010\n", false)->warnings.size(), 1u);
  const auto strict = composed("seed: 010\n", true);
  ASSERT_FALSE(strict);
  EXPECT_EQ(strict.errors().front().code, ErrorCode::kYamlTrap);
  EXPECT_EQ(strict.errors().front().severity, Severity::kError);
}

TEST(Prepare, StrictAcceptsRecipesWithoutWarnings) { EXPECT_TRUE(composed("seed: 10\n", true)); }

/// A recipe with this data and run.dir, prepared with overrides.
class HomePaths : public testing::Test {
 protected:
  /// The value at `key`, or "code: message | help" if the recipe is rejected.
  std::string prepared(const std::string& key, std::vector<std::string> overrides,
                       const std::string& run = "null") {
    const TemporaryFolder folder;
    folder.write("a.yaml",
                 "schema: 1\nname: probe\nrun: {dir: " + run +
                     "}\nvars: {base: ~/here}\ndata: {kind: data.image_folder, root: photos}\n"
                     "model: {kind: model.linear_probe, backbone: {kind: vit}}\nmemory: {kind: "
                     "memory.policy}\n"
                     "train: {kind: train.supervised}\n");
    NamedRecipe named;
    named.name = (folder.path() / "a.yaml").string();
    named.overrides = std::move(overrides);
    const auto result = prepare(named, shipped_schemas(), sources_);
    if (result) return describe(*at_key(result->recipe.resolved, key));
    const Diagnostic& error = result.errors().front();
    return name(error.code) + " " + error.pointer + ": " + error.message + " | " + error.help;
  }
  std::string home(const std::string& below) const {
    return std::string(std::getenv("HOME")) + below;
  }

  Sources sources_;
};

TEST_F(HomePaths, TildeIsExpandedWhereverItIsWritten) {
  EXPECT_EQ(prepared("data.root", {"data.root=~/d"}), "\"" + home("/d") + "\"");
  EXPECT_EQ(prepared("data.root", {"data.root=\"~/d\""}), "\"" + home("/d") + "\"");
  EXPECT_EQ(prepared("data.root", {"data.root=${vars.base}/d"}), "\"" + home("/here/d") + "\"");
  EXPECT_EQ(prepared("run.dir", {}, "~/out"), "\"" + home("/out") + "\"");
  EXPECT_EQ(prepared("run.dir", {"hydra.run.dir=~/out"}), "\"" + home("/out") + "\"");
  EXPECT_EQ(prepared("vars.base", {}), "\"~/here\"");  // not a path
  EXPECT_EQ(prepared("data.root", {"data.root=\"a~b\""}), "\"a~b\"");
}

TEST_F(HomePaths, ShellSyntaxIsRejected) {
  EXPECT_EQ(prepared("run.dir", {}, "$HOME/out"),
            "E0314 /run/dir: '$HOME/out' begins with '$HOME', which only a shell understands | "
            "write ~/ for the home folder, or ${oc.env:HOME}");
  EXPECT_EQ(prepared("data.root", {"data.root=\"~anna/d\""}),
            "E0314 /data/root: '~anna/d' begins with '~anna', which only a shell understands | "
            "write the folder's full path, or ./~anna/d for a folder with that name");
  EXPECT_EQ(prepared("run.dir", {"run.dir=\"out/~/a\""}),
            "E0314 /run/dir: 'out/~/a' would create a folder called '~' | start it with ~/ for the "
            "home folder");
}

/// The record of a run with relative paths that start at the folder "there", which is not this
/// program's working directory.
class PrepareRecorded : public testing::Test {
 protected:
  PrepareRecorded() {
    folder_.write("there/my_vit/model.safetensors", "of numbers");
    folder_.write("there/my_vit/config.json", R"({"model_type": "vit", "num_hidden_layers": 3})");
    folder_.write("run/.retort/run.json", R"({"schema": 1})");
    folder_.write("run/.retort/environment.json",
                  nlohmann::json{{"working_folder", (folder_ / "there").string()}}.dump());
    folder_.write("run/.retort/recipe.yaml",
                  "schema: 1\nname: probe\n"
                  "data: {kind: data.image_folder, root: photos}\n"
                  "model: {kind: model.linear_probe, backbone: {kind: vit, weights: my_vit}}\n"
                  "memory: {kind: memory.policy}\ntrain: {kind: train.supervised}\n");
  }
  Result<PreparedRecipe> prepared(std::vector<std::string> overrides = {}) {
    return prepare_recorded(folder_ / "run/.retort/recipe.yaml", std::move(overrides), schemas_,
                            sources_);
  }
  std::string layers_of(const Result<PreparedRecipe>& prepared) {
    return prepared
               ? describe(*at_key(prepared->recipe.resolved, "model.backbone.num_hidden_layers"))
               : prepared.errors().front().message;
  }
  const TemporaryFolder folder_;
  const SchemaSet& schemas_ = shipped_schemas();
  Sources sources_;
};

TEST_F(PrepareRecorded, ReadsTheWeightsInTheFolderOfTheRun) {
  EXPECT_EQ(layers_of(prepared()), "3");
  const auto contradicted = prepared({"model.backbone.num_hidden_layers=4"});
  ASSERT_FALSE(contradicted);
  EXPECT_EQ(contradicted.errors().front().message,
            "num_hidden_layers is 4, but 3 in the config.json next to the weights 'my_vit'");
}

TEST_F(PrepareRecorded, TypedPathsAreRelativeToTheCurrentFolder) {
  const auto moved = prepared({"model.backbone.weights=my_vit"});
  EXPECT_EQ(layers_of(moved), "12");
  EXPECT_EQ(describe(*at_key(moved->recipe.resolved, "model.backbone.weights")),
            '"' + (std::filesystem::current_path() / "my_vit").string() + '"');
}

TEST_F(PrepareRecorded, LeavesDefaultsOfTypedMappingsUnchanged) {
  const auto prepared_for = prepared({"+sweep.launcher={kind: kubernetes, image: a, claim: b}"});
  ASSERT_TRUE(prepared_for) << prepared_for.errors().front().message;
  EXPECT_EQ(describe(*at_key(prepared_for->recipe.resolved, "sweep.launcher.program")),
            "\"retort\"");
}

TEST_F(PrepareRecorded, IsShownWithValuesFromTheWeights) {
  NamedRecipe named;
  named.name = (folder_ / "run/.retort/recipe.yaml").string();
  const auto shown = compose_to_show(named, /*resolve=*/true, schemas_, sources_);
  ASSERT_TRUE(shown);
  EXPECT_EQ(describe(*at_key(shown->recipe, "model.backbone.num_hidden_layers")), "3");
}

}  // namespace
}  // namespace runner
