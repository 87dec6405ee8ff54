// Hooks of a recipe: when they are started and when they are rejected.

#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/fake_installation.h"
#include "tests/support/program.h"

namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

class RecipeHooks : public testing::Test {
 protected:
  RecipeHooks() {
    folder_.write("a.yaml",
                  "schema: 1\n"
                  "hooks: {after_run: [[touch, was-told]]}\n"
                  "data: {kind: data.image_folder, root: photos}\n");
    folder_.write("photos/cat/a.jpg", "");
    program_ = install_with_worker(beside_.path(), "hello read ready read finished:0").string();
  }
  Ended retort(const std::string& words) const {
    return run_shell("export XDG_CONFIG_HOME=$PWD/config; " + program_ + " " + words,
                     folder_.path());
  }
  bool was_told() const { return fs::remove(folder_ / "was-told"); }

  const TemporaryFolder folder_, beside_;
  std::string program_;
};

TEST_F(RecipeHooks, UntrustedRecipeIsRejectedBeforeItRuns) {
  const Ended ended = retort("run a.yaml run.dir=r");
  EXPECT_EQ(ended.exit, 78);
  EXPECT_THAT(ended.err, HasSubstr("a.yaml:2:"));
  EXPECT_THAT(ended.err, HasSubstr("error[E0714]: 'a.yaml' sets commands to run, but it was never "
                                   "trusted [/hooks]"));
  EXPECT_THAT(ended.err, HasSubstr("read it, then allow it: retort trust a.yaml"));
  EXPECT_FALSE(fs::exists(folder_ / "r"));
  EXPECT_FALSE(was_told());
  for (const char* harmless : {"validate a.yaml", "graph a.yaml", "config show a.yaml"})
    EXPECT_EQ(retort(harmless).exit, 0) << harmless;
}

TEST_F(RecipeHooks, TrustedRecipeStartsItsCommandsUntilItChanges) {
  EXPECT_EQ(retort("trust a.yaml").exit, 0);
  const Ended ended = retort("run a.yaml run.dir=r");
  EXPECT_EQ(ended.exit, 0) << ended.err;
  EXPECT_TRUE(was_told());
  folder_.write("a.yaml", folder_.read("a.yaml") + "# changed\n");
  EXPECT_THAT(retort("run a.yaml run.dir=r2").err,
              HasSubstr("it has changed since you trusted it"));
}

TEST_F(RecipeHooks, RecordedRecipeMustBeTrustedSeparately) {
  retort("trust a.yaml");
  retort("run a.yaml run.dir=r");
  EXPECT_TRUE(was_told());
  EXPECT_EQ(retort("runs rerun r run.dir=r2").exit, 78);
  EXPECT_EQ(retort("runs rerun r run.dir=r2 '~hooks'").exit, 0);
  EXPECT_FALSE(was_told());
  retort("trust r/.retort/recipe.yaml");
  EXPECT_EQ(retort("runs rerun r run.dir=r3").exit, 0);
  EXPECT_TRUE(was_told());
}

TEST_F(RecipeHooks, TypedCommandNeedsNoTrust) {
  const Ended ended = retort("run a.yaml run.dir=r 'hooks.after_run=[[touch,was-told]]'");
  EXPECT_EQ(ended.exit, 0) << ended.err;
  EXPECT_TRUE(was_told());
}

TEST_F(RecipeHooks, TrialsOfASweepDoNotRunHooks) {
  const Ended ended = retort("sweep a.yaml seed=1,2 sweep.dir=s");
  EXPECT_EQ(ended.exit, 0) << ended.err;
  EXPECT_THAT(ended.err,
              HasSubstr("'hooks' has no effect: the trials of a sweep do not run hooks"));
  EXPECT_FALSE(was_told());
}

}  // namespace
