// `retort init` writes a recipe, and the next step that it suggests works.

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/program.h"

namespace {

using testing::HasSubstr;

class Init : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"photos/cat/a.jpg", "photos/dog/b.jpg"}) folder_.write(name, "");
  }
  /// The command after "next: ", with an existing folder filled in.
  std::string next_step(const Ended& made) const {
    std::string line = made.err.substr(made.err.find("next: ") + 6);
    const std::size_t folder = line.find("FOLDER");
    return folder == line.npos
               ? ""
               : line.substr(0, folder).substr(std::string("retort ").size()) + "photos";
  }
  TemporaryFolder folder_;
};

TEST_F(Init, NextStepWorksForEveryRecipeName) {
  std::filesystem::create_directory(folder_ / "sub");
  for (const char* name :
       {"", "mine", "mine.yml", "sub/mine", "a.b", "classify", "./here", "caf\u00e9", "~x", "+x",
        "-x", "a=b", "'a b'", "'a;b'", "'a\nb'", "sub/", "'$HOME'"}) {
    const Ended made = retort(std::string("init ") + name, folder_.path());
    if (made.exit == 64) {
      EXPECT_THAT(made.err, testing::Not(HasSubstr("next: "))) << name;
      continue;
    }
    ASSERT_EQ(made.exit, 0) << name << made.err;
    const Ended next = retort(next_step(made), folder_.path());
    EXPECT_EQ(next.exit, 0) << name << ": " << next_step(made) << ": " << next.err;
    EXPECT_THAT(next.out, HasSubstr(" is valid: ")) << name;
  }
  EXPECT_TRUE(std::filesystem::exists(folder_ / "mine.yaml"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "mine.yml")) << "its extension was valid";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.path()))
    EXPECT_THAT(entry.path().string(), testing::Not(HasSubstr("a=b")));
}

TEST_F(Init, UsesTheDeviceAndMemoryOfTheShippedRecipes) {
  ASSERT_EQ(retort("init mine", folder_.path()).exit, 0);
  const Ended shown = retort("config show mine.yaml data.root=photos --resolve", folder_.path());
  EXPECT_THAT(shown.out, HasSubstr("device:\n  select: auto\n"));
  EXPECT_THAT(shown.out, HasSubstr("  allow: exact\n")) << "memory: auto";
}

TEST_F(Init, CommentedLinesAreValid) {
  ASSERT_EQ(retort("init mine", folder_.path()).exit, 0);
  std::istringstream lines(folder_.read("mine.yaml"));
  std::string text, more;
  for (std::string line; std::getline(lines, line);) {
    text += line + "\n";
    if (line.starts_with("# ") && line.ends_with("}")) more += line.substr(2) + "\n";
  }
  EXPECT_THAT(more, HasSubstr("budget"));
  folder_.write("more.yaml", text + more);
  const Ended validated = retort("validate more.yaml data.root=photos", folder_.path());
  EXPECT_EQ(validated.exit, 0) << validated.err;
}

TEST_F(Init, FileWithoutAnExtensionIsSuggested) {
  folder_.write("mine", "schema: 1\n");
  const Ended ended = retort("validate mine", folder_.path());
  EXPECT_EQ(ended.exit, 66);
  EXPECT_THAT(ended.err,
              HasSubstr("help: write './mine' for that file, or give it the extension .yaml\n"));
}

}  // namespace
