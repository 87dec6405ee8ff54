// `retort trust`: what it remembers and what it rejects.

#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/program.h"

namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

class Trust : public testing::Test {
 protected:
  Trust() {
    folder_.write("net.py", "a = 1\n");
    folder_.write("nets/b.py", "b = 1\n");
    folder_.write("nets/deep/c.py", "c = 1\n");
  }
  Ended trust(const std::string& words) const {
    return run_shell(
        "export XDG_CONFIG_HOME=$PWD/config; " RETORT_BINARY_DIR "/bin/retort trust " + words,
        folder_.path());
  }
  std::string path(const std::string& name) const {
    return (fs::canonical(folder_.path()) / name).string();
  }

  const TemporaryFolder folder_;
};

TEST_F(Trust, RemembersFilesFoldersAndModules) {
  EXPECT_EQ(trust("net.py nets mypkg.models").out,
            "trusted 'net.py'\ntrusted 'nets': 2 files\ntrusted the module 'mypkg'\n");
  EXPECT_EQ(trust("--list").out, path("net.py") + "\n" + path("nets/b.py") + "\n" +
                                     path("nets/deep/c.py") +
                                     "\nmypkg  (module)\ntimm  (module)\ntorchvision  (module)\n"
                                     "transformers  (module)\n");
}

TEST_F(Trust, AcceptsEntriesAsWrittenInARecipe) {
  EXPECT_EQ(trust("net.py:make mypkg.models:vit").out,
            "trusted 'net.py'\ntrusted the module 'mypkg'\n");
}

TEST_F(Trust, ExistingPathIsNotAModule) {
  folder_.write("mypkg/x.py", "");
  EXPECT_EQ(trust("mypkg").out, "trusted 'mypkg': 1 file\n");
}

TEST_F(Trust, ListMarksChangedAndMissingFiles) {
  trust("net.py nets");
  folder_.write("net.py", "a = 2\n");
  fs::remove(folder_ / "nets/b.py");
  const auto listed = nlohmann::json::parse(trust("--list --json").out)["result"]["files"];
  EXPECT_EQ(listed[0]["state"], "changed");
  EXPECT_EQ(listed[1]["state"], "missing");
  EXPECT_EQ(listed[2]["state"], "trusted");
}

TEST_F(Trust, CanBeRevokedForDeletedFiles) {
  trust("net.py nets mypkg");
  fs::remove_all(folder_ / "nets");
  EXPECT_EQ(trust("--remove net.py nets mypkg timm").out,
            "no longer trusted: 'net.py'\nno longer trusted: 'nets', 2 files\n"
            "no longer trusted: the module 'mypkg'\nno longer trusted: the module 'timm'\n");
  EXPECT_EQ(trust("--list").out, "torchvision  (module)\ntransformers  (module)\n");
}

TEST_F(Trust, NothingIsTrustedIfOneArgumentIsInvalid) {
  const Ended ended = trust("net.py none.py");
  EXPECT_EQ(ended.exit, 66);
  EXPECT_THAT(ended.err, HasSubstr("error[E0634]: 'none.py' does not exist or cannot be read"));
  EXPECT_THAT(trust("--list").out, testing::StartsWith("timm"));
}

TEST_F(Trust, RejectsInvalidArguments) {
  EXPECT_EQ(trust("").exit, 64);
  EXPECT_EQ(trust("--list net.py").exit, 64);
  EXPECT_EQ(trust("--list --remove").exit, 64);
  EXPECT_EQ(trust("a-b").exit, 64);
  fs::create_directory(folder_ / "empty");
  EXPECT_THAT(trust("empty").err, HasSubstr("'empty' contains no Python files"));
  EXPECT_THAT(trust("--remove nets").err, HasSubstr("'nets' was not trusted"));
  EXPECT_THAT(trust("--remove mypkg").err, HasSubstr("the module 'mypkg' was not trusted"));
}

TEST_F(Trust, DamagedListIsReportedAndKept) {
  folder_.write("config/retort/trusted.json", "{}");
  const Ended ended = trust("net.py");
  EXPECT_EQ(ended.exit, 78);
  EXPECT_THAT(ended.err, HasSubstr("trusted.json' is damaged"));
  EXPECT_EQ(folder_.read("config/retort/trusted.json"), "{}");
}

TEST_F(Trust, UnwritableListIsAnError) {
  folder_.write("config", "a file");
  EXPECT_EQ(trust("net.py").exit, 73);
}

}  // namespace
