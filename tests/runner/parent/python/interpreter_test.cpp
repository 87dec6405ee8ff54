#include "runner/parent/python/interpreter.h"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

class InterpreterTest : public testing::Test {
 protected:
  std::string make_program(const std::string& name) const {
    const fs::path file = folder_.write(name, "#!/bin/sh\n");
    fs::permissions(file, fs::perms::owner_all);
    return file.string();
  }
  Result<fs::path> find(const std::string& request = "") {
    Value recipe{Value::Map{}, {}};
    if (!request.empty()) recipe.map()->push_back({"python", {}, {request, {&source_, 4, 9}}});
    return find_interpreter(recipe, folder_.path(), [this](const char* name) {
      const auto found = variables_.find(name);
      return found == variables_.end() ? std::nullopt : std::optional(found->second);
    });
  }
  std::string found(const std::string& request = "") {
    const auto path = find(request);
    return path ? path->string() : "error: " + path.errors().front().message;
  }

  const TemporaryFolder folder_;
  const SourceText source_{"a.yaml", ""};
  std::map<std::string, std::string> variables_;
};

TEST_F(InterpreterTest, ActiveEnvironmentComesFirst) {
  const std::string python = make_program("venv/bin/python");
  make_program("bin/python3");
  variables_ = {{"VIRTUAL_ENV", folder_ / "venv"}, {"PATH", folder_ / "bin"}};
  EXPECT_EQ(found(), python);
  EXPECT_EQ(found("auto"), python);
}

TEST_F(InterpreterTest, EnvironmentWithoutInterpreterIsAnError) {
  make_program("bin/python3");
  variables_ = {{"VIRTUAL_ENV", folder_ / "venv"}, {"PATH", folder_ / "bin"}};
  EXPECT_THAT(found(), HasSubstr("error: the virtual environment '"));
}

TEST_F(InterpreterTest, Python3InAnyFolderComesBeforePython) {
  variables_ = {{"PATH", (folder_ / "one").string() + ":" + (folder_ / "two").string()}};
  const std::string python = make_program("one/python");
  EXPECT_EQ(found(), python);
  const std::string python3 = make_program("two/python3");
  EXPECT_EQ(found(), python3);
}

TEST_F(InterpreterTest, RelativeFolderInPathIsNotSearched) {
  make_program("python3");
  variables_ = {{"PATH", ":.:"}};
  EXPECT_EQ(found(),
            "error: the recipe has Python code, but there is no python3 or python on PATH");
  EXPECT_EQ(find().errors().front().code, ErrorCode::kNoPython);
  EXPECT_THAT(find().errors().front().help, HasSubstr("python=venv/bin/python"));
}

TEST_F(InterpreterTest, NonExecutableFilesAreNotInterpreters) {
  variables_ = {{"PATH", folder_ / "bin"}};
  folder_.write("bin/python3", "");
  fs::create_directories(folder_ / "bin/python");
  EXPECT_THAT(found(), HasSubstr("no python3 or python on PATH"));
}

TEST_F(InterpreterTest, PathIsRelativeToTheRecipesFolder) {
  const std::string python = make_program("venv/bin/python3.12");
  EXPECT_EQ(found("venv/bin/python3.12"), python);
  EXPECT_EQ(found(python), python);
}

TEST_F(InterpreterTest, LinkInAnEnvironmentIsNotFollowed) {
  fs::create_directories(folder_ / "venv/bin");
  fs::create_symlink(make_program("usr/python3"), folder_ / "venv/bin/python");
  EXPECT_EQ(found("venv/bin/python"), folder_ / "venv/bin/python");
}

TEST_F(InterpreterTest, InvalidPathIsReportedAtItsLocation) {
  folder_.write("notes.txt", "");
  EXPECT_EQ(found("none"), "error: 'none' is not a Python interpreter: there is no such file");
  EXPECT_EQ(found("notes.txt"),
            "error: 'notes.txt' is not a Python interpreter: it is not an executable file");
  const auto error = find("none").errors().front();
  EXPECT_EQ(error.pointer, "/python");
  EXPECT_EQ(error.where.line, 4);
}

}  // namespace
}  // namespace runner
