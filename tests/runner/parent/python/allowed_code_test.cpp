#include "runner/parent/python/allowed_code.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runner/shared/disk/digest.h"
#include "tests/support/python_schemas.h"
#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;
using testing::UnorderedElementsAre;
namespace fs = std::filesystem;

class AllowedCodeTest : public testing::Test {
 protected:
  AllowedCodeTest() { fs::create_directories(folders_.recipe); }

  std::string real(const std::string& name) const {
    return (fs::canonical(folder_.path()) / name).string();
  }
  void trust(const std::string& name) {
    const auto file = read_code(folder_ / name);
    ASSERT_TRUE(file) << name;
    trusted_.trust(file->real, file->sha256);
  }
  /// The errors for a model with this entry.
  Diagnostics allow(const std::string& entry) {
    graph_ = Graph();
    graph_.nodes = {node_with_entry("model", "model.code", entry, &source_)};
    return allow_code(graph_, python_entries(graph_, schemas_), folders_, trusted_);
  }
  std::string refusal(const std::string& entry) {
    const Diagnostics errors = allow(entry);
    if (errors.size() != 1) return std::to_string(errors.size()) + " errors";
    EXPECT_EQ(errors.front().pointer, "/model/entry");
    EXPECT_EQ(errors.front().where.line, 3);
    EXPECT_THAT(graph_.python.files, IsEmpty());
    return name(errors.front().code) + ": " + errors.front().message;
  }

  const TemporaryFolder folder_;
  const SourceText source_{"a.yaml", ""};
  const SchemaSet schemas_ = python_schemas();
  const CodeFolders folders_{folder_.path(), folder_ / "recipes"};
  TrustedCode trusted_{fs::path()};
  Graph graph_;
};

TEST_F(AllowedCodeTest, UntrustedFileDoesNotRun) {
  folder_.write("my_net.py", "def make(): pass\n");
  EXPECT_EQ(refusal("my_net.py:make"), "E0714: the Python file '" +
                                           (folder_ / "my_net.py").string() +
                                           "' was never trusted, so it does not run");
  EXPECT_EQ(allow("my_net.py:make").front().help,
            "read it, then allow it: retort trust " + (folder_ / "my_net.py").string());
}

TEST_F(AllowedCodeTest, TrustedFileIsSentToTheWorkerWithItsDigest) {
  folder_.write("my_net.py", "a = 1\n");
  trust("my_net.py");
  EXPECT_THAT(allow("my_net.py:make"), IsEmpty());
  EXPECT_THAT(graph_.python.files, ElementsAre(Pair(real("my_net.py"), sha256("a = 1\n"))));
  ASSERT_THAT(graph_.python.entries, SizeIs(1));
  EXPECT_EQ(graph_.python.entries[0].pointer, "/model/entry");
  EXPECT_EQ(graph_.python.entries[0].path, real("my_net.py"));
  EXPECT_EQ(graph_.python.entries[0].text, "a = 1\n");
  EXPECT_NE(graph_.nodes[0].code, "");
}

TEST_F(AllowedCodeTest, ChangedFileDoesNotRun) {
  folder_.write("my_net.py", "a = 1\n");
  trust("my_net.py");
  folder_.write("my_net.py", "a = 2\n");
  EXPECT_THAT(refusal("my_net.py:make"),
              HasSubstr("' has changed since you trusted it, so it does not run"));
}

TEST_F(AllowedCodeTest, ChangedBytesChangeTheCodeOfTheNode) {
  folder_.write("my_net.py", "a = 1\n");
  trust("my_net.py");
  ASSERT_THAT(allow("my_net.py:make"), IsEmpty());
  const std::string before = graph_.nodes[0].code;
  folder_.write("my_net.py", "a = 2\n");
  trust("my_net.py");
  ASSERT_THAT(allow("my_net.py:make"), IsEmpty());
  EXPECT_NE(graph_.nodes[0].code, before);
}

TEST_F(AllowedCodeTest, NestedEntryMustBeTrustedToo) {
  folder_.write("my_net.py", "a = 1\n");
  folder_.write("my_tokens.py", "b = 1\n");
  trust("my_net.py");
  const auto allow_both = [&] {
    graph_ = Graph();
    graph_.nodes = {node_with_tokenizer("model", "my_net.py:make", "my_tokens.py:make", &source_)};
    return allow_code(graph_, python_entries(graph_, schemas_), folders_, trusted_);
  };
  const Diagnostics errors = allow_both();
  ASSERT_THAT(errors, SizeIs(1));
  EXPECT_EQ(errors.front().pointer, "/model/tokenizer/entry");
  EXPECT_EQ(errors.front().where.line, 4);
  trust("my_tokens.py");
  ASSERT_THAT(allow_both(), IsEmpty());
  EXPECT_THAT(graph_.python.files, SizeIs(2));
  EXPECT_TRUE(graph_.python.has_entry("/model/tokenizer/entry"));
}

TEST_F(AllowedCodeTest, ChangedBytesOfEitherEntryChangeTheCodeOfTheNode) {
  const auto code = [&](const std::string& net, const std::string& tokens) {
    folder_.write("my_net.py", net);
    folder_.write("my_tokens.py", tokens);
    trust("my_net.py");
    trust("my_tokens.py");
    graph_ = Graph();
    graph_.nodes = {node_with_tokenizer("model", "my_net.py:make", "my_tokens.py:make")};
    EXPECT_THAT(allow_code(graph_, python_entries(graph_, schemas_), folders_, trusted_),
                IsEmpty());
    return graph_.nodes[0].code;
  };
  const std::string before = code("a = 1\n", "b = 1\n");
  EXPECT_NE(code("a = 2\n", "b = 1\n"), before);
  EXPECT_NE(code("a = 1\n", "b = 2\n"), before);
  EXPECT_EQ(code("a = 1\n", "b = 1\n"), before);
}

TEST_F(AllowedCodeTest, LinkToUntrustedFileIsUntrusted) {
  folder_.write("my_net.py", "a = 1\n");
  trust("my_net.py");
  folder_.write("evil.py", "a = 2\n");
  fs::remove(folder_ / "my_net.py");
  fs::create_symlink("evil.py", folder_ / "my_net.py");
  EXPECT_THAT(refusal("my_net.py:make"), HasSubstr("was never trusted"));
}

TEST_F(AllowedCodeTest, MissingFileIsReported) {
  EXPECT_THAT(refusal("none.py:make"), HasSubstr("E0634: the Python file '"));
  EXPECT_THAT(allow("none.py:make").front().help,
              HasSubstr("relative paths start at '" + folder_.path().string() + "'"));
  EXPECT_EQ(allow((folder_ / "no_net.py").string() + ":make").front().help, "correct the path");
  folder_.write("recipes/no_net.py", "");
  EXPECT_THAT(allow("no_net.py:make").front().help,
              HasSubstr("; the recipe's folder has one: '" +
                        (folder_ / "recipes/no_net.py").string() + "'"));
}

TEST_F(AllowedCodeTest, MalformedEntryIsAnError) {
  EXPECT_THAT(refusal("my_net.py"), HasSubstr("E0307: 'my_net.py' does not refer to Python code"));
}

TEST_F(AllowedCodeTest, InstalledModuleIsTrustedByItsPackage) {
  EXPECT_EQ(refusal("mypkg.nets:make"),
            "E0714: the Python module 'mypkg' was never trusted, so it does not run");
  EXPECT_EQ(allow("mypkg.nets:make").front().help, "read it, then allow it: retort trust mypkg");
  trusted_.trust_module("mypkg");
  EXPECT_THAT(allow("mypkg.nets:make"), IsEmpty());
  EXPECT_THAT(allow("timm:create_model"), IsEmpty());
  EXPECT_THAT(graph_.python.files, IsEmpty());
  EXPECT_EQ(graph_.nodes[0].code, "");
}

TEST_F(AllowedCodeTest, FileThatShadowsATrustedModuleNeedsTrust) {
  for (const std::string file :
       {"timm.py", "timm.pyc", "timm.cpython-312-x86_64-linux-gnu.so", "recipes/timm.py",
        "timm/__init__.py", "timm/models.py", "recipes/timm/deep/x.py"}) {
    folder_.write(file, "import os\n");
    EXPECT_THAT(refusal("timm:create_model"), HasSubstr(file + "' was never trusted")) << file;
    EXPECT_THAT(allow("timm:create_model").front().notes.front().message,
                "the local 'timm' would be imported instead of the installed module");
    trust(file);
    EXPECT_THAT(allow("timm:create_model"), IsEmpty()) << file;
    EXPECT_THAT(graph_.python.files, SizeIs(1));
    fs::remove_all(folder_ / "timm");
    fs::remove_all(folder_ / file);
    fs::remove_all(folder_ / "recipes/timm");
  }
}

TEST_F(AllowedCodeTest, FolderWithoutCodeIsNotAModule) {
  folder_.write("timm/cat.jpg", "");
  folder_.write("timmy.py", "");
  EXPECT_THAT(allow("timm:create_model"), IsEmpty());
}

TEST_F(AllowedCodeTest, NewFileOfAPackageIsNotTrusted) {
  folder_.write("nets/__init__.py", "");
  folder_.write("nets/deep/small.py", "b\n");
  trust("nets/__init__.py");
  trust("nets/deep/small.py");
  EXPECT_THAT(allow("nets:make"), IsEmpty());
  EXPECT_THAT(
      graph_.python.entries,
      ElementsAre(testing::Field(&PythonFile::pointer, "/model/entry/nets~1__init__.py"),
                  testing::Field(&PythonFile::pointer, "/model/entry/nets~1deep~1small.py")));
  folder_.write("nets/new.py", "");
  folder_.write("nets/other.py", "");
  EXPECT_THAT(refusal("nets:make"), HasSubstr("nets/new.py' was never trusted, so it does not run; "
                                              "nor does 1 other file there"));
  EXPECT_THAT(allow("nets:make").front().help, testing::EndsWith("retort trust " + real("nets")));
}

TEST_F(AllowedCodeTest, OnlyTrustedNeighborsMayBeImported) {
  for (const char* name : {"my_net.py", "helper.py", "changed.py", "new.py", "lib/deep.py"})
    folder_.write(name, name);
  for (const char* name : {"my_net.py", "helper.py", "changed.py", "lib/deep.py"}) trust(name);
  folder_.write("changed.py", "changed");
  trusted_.trust("/elsewhere/x.py", sha256(""));
  EXPECT_THAT(allow("my_net.py:make"), IsEmpty());
  EXPECT_THAT(graph_.python.files,
              UnorderedElementsAre(Pair(real("my_net.py"), sha256("my_net.py")),
                                   Pair(real("helper.py"), sha256("helper.py")),
                                   Pair(real("lib/deep.py"), sha256("lib/deep.py"))));
  EXPECT_THAT(graph_.python.entries, SizeIs(1));
}

TEST_F(AllowedCodeTest, BothFoldersAreSearchedUnlessAllModulesAreInstalled) {
  folder_.write("my_net.py", "");
  trust("my_net.py");
  EXPECT_THAT(allow("my_net.py:make"), IsEmpty());
  EXPECT_THAT(graph_.python.folders,
              ElementsAre(fs::canonical(folder_.path()).string(), real("recipes")));
  EXPECT_THAT(allow("timm:create_model"), IsEmpty());
  EXPECT_THAT(graph_.python.folders, IsEmpty());
}

TEST_F(AllowedCodeTest, EveryUntrustedEntryIsReported) {
  folder_.write("a.py", "");
  graph_.nodes = {node_with_entry("model", "model.code", "a.py:make"),
                  node_with_entry("other", "model.code", "mypkg:make")};
  EXPECT_THAT(allow_code(graph_, python_entries(graph_, schemas_), folders_, trusted_), SizeIs(2));
}

TEST(TrustCommand, QuotesPathsForTheShell) {
  EXPECT_EQ(trust_command("nets/my_net.py"), "retort trust nets/my_net.py");
  EXPECT_EQ(trust_command("my net's.py"), "retort trust 'my net'\\''s.py'");
  EXPECT_EQ(trust_command("-x.py"), "retort trust ./-x.py");
}

}  // namespace
}  // namespace runner
