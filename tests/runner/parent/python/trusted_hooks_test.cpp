#include "runner/parent/python/trusted_hooks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runner/shared/disk/digest.h"
#include "tests/support/schema_texts.h"
#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class TrustedHooksTest : public testing::Test {
 protected:
  const std::string kRecipe = R"({"schema": 1, "hooks": {"after_run": [["notify", "done"]]}})";

  /// The recipe as read from `file`.
  Value read_from(const std::string& file, const std::string& text = "text") {
    return written(kRecipe, sources_.add((folder_ / file).string(), text));
  }
  void trust(const std::string& file, const std::string& text) {
    trusted_.trust(std::filesystem::canonical(folder_ / file), sha256(text));
  }

  const TemporaryFolder folder_;
  Sources sources_;
  TrustedCode trusted_{std::filesystem::path()};
};

TEST_F(TrustedHooksTest, FileWithCommandsMustBeTrustedWithTheContentsThatWereRead) {
  folder_.write("a.yaml", "text");
  const Value recipe = read_from("a.yaml");
  auto errors = untrusted_hooks(recipe, {}, trusted_);
  ASSERT_THAT(errors, SizeIs(1));
  EXPECT_EQ(errors[0].code, ErrorCode::kUntrustedCode);
  EXPECT_THAT(errors[0].message,
              HasSubstr("a.yaml' sets commands to run, but it was never trusted"));
  EXPECT_THAT(errors[0].help, HasSubstr("retort trust "));
  trust("a.yaml", "text");
  EXPECT_THAT(untrusted_hooks(recipe, {}, trusted_), IsEmpty());
  trust("a.yaml", "other");
  errors = untrusted_hooks(recipe, {}, trusted_);
  ASSERT_THAT(errors, SizeIs(1));
  EXPECT_THAT(errors[0].message, HasSubstr("it has changed since you trusted it"));
}

TEST_F(TrustedHooksTest, EveryFileWithCommandsNeedsTrust) {
  folder_.write("a.yaml", "text");
  folder_.write("b.yaml", "text");
  Value recipe = read_from("a.yaml");
  const Value other = read_from("b.yaml");
  recipe.find("hooks")->map()->front().value.list()->push_back(
      other.find("hooks")->map()->front().value.list()->front());
  trust("a.yaml", "text");
  EXPECT_THAT(untrusted_hooks(recipe, {}, trusted_), SizeIs(1));
  trust("b.yaml", "text");
  EXPECT_THAT(untrusted_hooks(recipe, {}, trusted_), IsEmpty());
}

TEST_F(TrustedHooksTest, CommandsInOverridesNeedNoTrust) {
  const SourceText& typed = sources_.add("override 1", "+hooks.after_run=[[notify,done]]");
  const Value recipe = written(kRecipe, typed);
  const std::vector<Override> overrides = {*parse_override(typed)};
  EXPECT_THAT(untrusted_hooks(recipe, overrides, trusted_), IsEmpty());
  EXPECT_THAT(untrusted_hooks(recipe, {}, trusted_), SizeIs(1)) << "the source is not a file";
}

TEST_F(TrustedHooksTest, RecipeWithoutCommandsNeedsNoTrust) {
  for (const char* text :
       {R"({"schema": 1})", R"({"hooks": {"after_run": [], "timeout_seconds": 3}})"}) {
    const Value recipe = written(text, sources_.add("a.yaml", ""));
    EXPECT_FALSE(has_hooks(recipe));
    EXPECT_THAT(untrusted_hooks(recipe, {}, trusted_), IsEmpty());
  }
  EXPECT_TRUE(has_hooks(written(kRecipe)));
}

}  // namespace
}  // namespace runner
