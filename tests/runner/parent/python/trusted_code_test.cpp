#include "runner/parent/python/trusted_code.h"

#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runner/shared/disk/digest.h"
#include "runner/shared/disk/write_error.h"
#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using State = TrustedCode::State;
namespace fs = std::filesystem;

class TrustedCodeTest : public testing::Test {
 protected:
  std::string refusal(const std::string& list) const {
    folder_.write("config/trusted.json", list);
    const auto code = TrustedCode::read(file_);
    return code ? "" : code.errors().front().message;
  }

  const TemporaryFolder folder_;
  const fs::path file_ = folder_ / "config/trusted.json";
};

TEST_F(TrustedCodeTest, OnlyThreeModulesAreTrustedByDefault) {
  const auto code = TrustedCode::read(file_);
  ASSERT_TRUE(code);
  EXPECT_THAT(code->modules(), ElementsAre("timm", "torchvision", "transformers"));
  EXPECT_EQ(code->state("/a.py", sha256("")), State::kNever);
  EXPECT_FALSE(code->trusts_module("os"));
}

TEST_F(TrustedCodeTest, RemembersBytesNotNames) {
  TrustedCode code(file_);
  code.trust("/nets/a.py", sha256("a"));
  code.trust_module("mypkg");
  code.save();
  const auto read = TrustedCode::read(file_);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->state("/nets/a.py", sha256("a")), State::kTrusted);
  EXPECT_EQ(read->state("/nets/a.py", sha256("b")), State::kChanged);
  EXPECT_EQ(read->state("/nets/b.py", sha256("a")), State::kNever);
  EXPECT_TRUE(read->trusts_module("mypkg"));
}

TEST_F(TrustedCodeTest, ListIsAccessibleOnlyToItsUser) {
  TrustedCode(file_).save();
  struct stat state {};
  ASSERT_EQ(stat(file_.c_str(), &state), 0);
  EXPECT_EQ(state.st_mode & 0777, 0600u);
}

TEST_F(TrustedCodeTest, ForgetsTheFilesOfAFolder) {
  TrustedCode code(file_);
  for (const char* path : {"/nets/a.py", "/nets/deep/b.py", "/nets.py", "/other/c.py"})
    code.trust(path, sha256(path));
  EXPECT_THAT(code.forget("/nets"), ElementsAre("/nets/a.py", "/nets/deep/b.py"));
  EXPECT_THAT(code.forget("/nets"), IsEmpty());
  EXPECT_THAT(code.forget("/nets.py"), ElementsAre("/nets.py"));
  EXPECT_EQ(code.files().size(), 1u);
}

TEST_F(TrustedCodeTest, RemovedDefaultModuleStaysRemoved) {
  TrustedCode code(file_);
  EXPECT_TRUE(code.forget_module("timm"));
  EXPECT_FALSE(code.forget_module("timm"));
  EXPECT_FALSE(code.forget_module("mypkg"));
  code.save();
  EXPECT_FALSE(TrustedCode::read(file_)->trusts_module("timm"));
}

TEST_F(TrustedCodeTest, DamagedListTrustsNothing) {
  const std::string is_damaged = "the list of trusted code '" + file_.string() + "' is damaged: ";
  EXPECT_EQ(refusal("{"), is_damaged + "it is not JSON");
  EXPECT_EQ(refusal(""), is_damaged + "it is not JSON");
  EXPECT_EQ(refusal("[]"), is_damaged + "it is not a JSON object");
  EXPECT_EQ(refusal(R"({"schema": 2, "files": {}, "modules": {}})"),
            is_damaged + "it was written by a different version");
  EXPECT_EQ(refusal(R"({"schema": 1, "files": {"/a.py": "yes"}, "modules": {}})"),
            is_damaged + "'files' has a '/a.py' that is not a SHA-256");
  EXPECT_EQ(refusal(R"({"schema": 1, "files": {}, "modules": {"os": "yes"}})"),
            is_damaged + "'modules' has a 'os' that is not a boolean");
  EXPECT_EQ(refusal(R"({"schema": 1, "modules": {}})"), is_damaged + "it has no 'files'");
}

TEST_F(TrustedCodeTest, FolderInsteadOfTheListCountsAsDamage) {
  fs::create_directories(file_);
  EXPECT_FALSE(TrustedCode::read(file_));
}

TEST_F(TrustedCodeTest, CannotBeSavedWithoutAFolder) {
  try {
    TrustedCode("").save();
    ADD_FAILURE() << "it was kept";
  } catch (const WriteError& error) {
    EXPECT_THAT(error.help, HasSubstr("XDG_CONFIG_HOME"));
  }
}

TEST_F(TrustedCodeTest, FileBehindALinkIsReadAndResolved) {
  folder_.write("real/net.py", "x = 1\n");
  fs::create_symlink("real/net.py", folder_ / "net.py");
  const auto code = read_code(folder_ / "net.py");
  ASSERT_TRUE(code);
  EXPECT_EQ(code->real, fs::canonical(folder_.path()) / "real/net.py");
  EXPECT_EQ(code->sha256, sha256("x = 1\n"));
  EXPECT_FALSE(read_code(folder_ / "none.py"));
  EXPECT_FALSE(read_code(folder_.path()));
}

TEST_F(TrustedCodeTest, PythonFilesInSubfoldersAreFound) {
  for (const char* name : {"b.py", "a.txt", "deep/er/c.py", ".venv/d.py"}) folder_.write(name, "");
  fs::create_directory_symlink(folder_.path(), folder_ / "again");
  EXPECT_THAT(python_files_below(folder_.path()),
              ElementsAre(folder_ / "b.py", folder_ / "deep/er/c.py"));
}

}  // namespace
}  // namespace runner
