#include "runner/parent/compile/missing_files.h"

#include <sys/stat.h>

#include <filesystem>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runner/parent/cli/prepare.h"
#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Json = nlohmann::ordered_json;

/// Recipes with relative paths that are resolved against a folder of their own.
class MissingFilesTest : public testing::Test {
 protected:
  /// Returns one line per error, such as "E0621 /model/weights: …".
  std::vector<std::string> missing(const std::string& stages) {
    Sources sources;
    auto prepared = prepare_text("schema: 1\n" + stages, {}, shipped_schemas(), sources);
    if (!prepared) {
      for (const Diagnostic& error : prepared.errors())
        ADD_FAILURE() << error.pointer << " " << error.message;
      return {};
    }
    prepared->graph.working_folder = folder_.path().string();
    std::vector<std::string> lines;
    for (const Diagnostic& error : missing_files(prepared->graph, shipped_schemas())) {
      EXPECT_NE(error.where.source, nullptr) << error.message;
      helps_.push_back(error.help);
      lines.push_back(name(error.code) + " " + error.pointer + ": " + error.message);
    }
    return lines;
  }

  TemporaryFolder folder_;
  std::vector<std::string> helps_;
};

TEST_F(MissingFilesTest, MissingWeightsSuggestTheFetchCommand) {
  EXPECT_THAT(
      missing("model: {kind: model.clip, weights: weights/clip-vit-base-patch32.safetensors}"),
      ElementsAre(HasSubstr("E0621 /model/weights: there is no '")));
  EXPECT_THAT(
      helps_,
      ElementsAre(HasSubstr("`retort data fetch hf:openai/clip-vit-base-patch32` fetches")));
  EXPECT_THAT(missing("model: {kind: model.cnn, weights: mine.pth}"),
              ElementsAre(HasSubstr("E0621 /model/weights")));
  EXPECT_THAT(helps_.back(), HasSubstr("`retort data fetch hf:ORG/NAME`"));
  EXPECT_THAT(
      missing("model: {kind: model.lora, backbone: {kind: vit, weights: hf:nobody/nothing}}"),
      ElementsAre(HasSubstr("E0621 /model/backbone/weights: hf:nobody/nothing is not in")));
}

TEST_F(MissingFilesTest, ExistingFilesAreAccepted) {
  folder_.write("w.safetensors", "not looked into");
  folder_.write("merges.txt", "");
  folder_.write("photos/a/1.jpg", "");
  EXPECT_THAT(
      missing("data: {kind: data.image_folder, root: photos}\n"
              "model: {kind: model.clip, weights: w.safetensors, tokenizer: {merges: merges.txt}}"),
      IsEmpty());
}

TEST_F(MissingFilesTest, AllMissingFilesAreReportedAtOnce) {
  EXPECT_THAT(missing("data: {kind: data.image_table, root: photos, table: list.csv, label: name}\n"
                      "model: {kind: model.clip, tokenizer: {merges: m.txt, vocabulary: v.json}}\n"
                      "memory: {kind: memory.policy}\n"
                      "train: {kind: train.supervised, warm_start: nope/}"),
              ElementsAre("E0601 /data/root: there is no folder 'photos'",
                          "E0611 /data/table: there is no file 'list.csv'",
                          "E0621 /model/tokenizer/merges: there is no file 'm.txt'",
                          "E0621 /model/tokenizer/vocabulary: there is no file 'v.json'",
                          "E0621 /train/warm_start: there is no file or folder 'nope/'"));
}

TEST_F(MissingFilesTest, FilesAndFoldersAreNotInterchangeable) {
  folder_.write("file", "");
  std::filesystem::create_directory(folder_ / "folder");
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(
      missing("data: {kind: data.image_folder, root: file}\n"
              "model: {kind: model.clip, tokenizer: {merges: folder, vocabulary: pipe}}"),
      ElementsAre("E0601 /data/root: 'file' is not a folder",
                  "E0621 /model/tokenizer/merges: 'folder' is a folder, not a file",
                  "E0621 /model/tokenizer/vocabulary: 'pipe' is neither a file nor a folder"));
}

TEST_F(MissingFilesTest, UnreadableFileIsReported) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read everything";
  folder_.write("m.txt", "");
  std::filesystem::permissions(folder_ / "m.txt", std::filesystem::perms::none);
  EXPECT_THAT(missing("model: {kind: model.clip, tokenizer: {merges: m.txt}}"),
              ElementsAre("E0621 /model/tokenizer/merges: cannot read 'm.txt': Permission denied"));
}

TEST_F(MissingFilesTest, FilesThatTheRunCreatesMayBeMissing) {
  EXPECT_THAT(missing("data: {kind: data.image_folder, root: photos, make: {classes: 2}}"),
              IsEmpty());
  EXPECT_THAT(missing("data: {kind: data.flowers102, root: flowers, download: true}"), IsEmpty());
  EXPECT_THAT(missing("data: {kind: data.flowers102, root: flowers}"),
              ElementsAre("E0601 /data/root: there is no folder 'flowers'"));
}

TEST_F(MissingFilesTest, OneOfSeveralListsIsEnough) {
  folder_.write("set/val.txt", "");
  folder_.write("set/novel.txt", "");
  EXPECT_THAT(
      missing("data: {kind: data.few_shot, root: set, train: [base.json, base.txt], validation: "
              "[val.json, val.txt], test: novel.txt}"),
      ElementsAre(
          "E0611 /data/train: there is no file or folder 'set/base.json', nor 'set/base.txt'"));
  EXPECT_THAT(missing("data: {kind: data.few_shot, root: nowhere}"),
              ElementsAre("E0601 /data/root: there is no folder 'nowhere'"))
      << "nothing can be checked about the lists";
}

TEST_F(MissingFilesTest, ItemsOfAForeachHaveTheirOwnFiles) {
  folder_.write("one.pth", "");
  EXPECT_THAT(
      missing("model: {kind: model.cnn, foreach: {w: [one, two, two_]}, weights: '${item.w}.pth'}"),
      ElementsAre(HasSubstr("two.pth"), HasSubstr("two_.pth")));
}

/// Collects the options that take a path or weights: in `declared` if they declare what must exist,
/// else in `open`.
void collect_paths(const Json& schema, const std::string& place, std::set<std::string>& declared,
                   std::set<std::string>& open) {
  const Json properties = schema.value("properties", Json::object());
  for (const auto& [key, property] : properties.items()) {
    const std::string name = place + "/" + key, text = property.dump();
    const bool is_path = text.find("common.schema.json#/definitions/path\"") != text.npos ||
                         text.find("common.schema.json#/definitions/weights\"") != text.npos;
    const bool is_leaf =
        !property.contains("properties") && text.find("\"properties\"") == text.npos;
    if (is_path && is_leaf) (property.contains("x-file") ? declared : open).insert(name);
    collect_paths(property, name, declared, open);
    for (const Json& part : property.value("anyOf", Json::array())) {
      if (part.is_object()) collect_paths(part, name, declared, open);
    }
  }
}

/// A new option that names a file must declare what has to exist there.
TEST(MissingFiles, EveryOptionThatNamesAFileDeclaresWhatMustExist) {
  std::set<std::string> declared, open;
  for (const SchemaFile& file : embedded_schemas())
    collect_paths(Json::parse(file.text), std::string(file.path), declared, open);
  EXPECT_THAT(open, ElementsAre("recipe.schema.json/run/dir", "recipe.schema.json/sweep/dir",
                                "sweep/launcher/kubernetes.schema.json/mount",
                                "sweep/launcher/kubernetes.schema.json/program"))
      << "these are created, or are on another machine";
  EXPECT_GE(declared.size(), 20u);
}

}  // namespace
}  // namespace runner
