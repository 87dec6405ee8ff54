#include "runner/parent/record/input_record.h"

#include <chrono>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runner/parent/cli/prepare.h"
#include "runner/parent/config/yaml_reader.h"
#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;
using testing::ElementsAre;

class InputRecord : public testing::Test {
 protected:
  InputRecord() {
    folder_.write("photos/cat/1.jpg", "one");
    folder_.write("photos/dog/2.jpg", "two");
  }
  ordered_json look(std::uintmax_t largest = kLargestContents) const {
    return input_record({{"/data/root", folder_ / "photos"}}, largest);
  }
  /// The first change since `before`; empty if there is none.
  std::string change_since(const ordered_json& before,
                           std::uintmax_t largest = kLargestContents) const {
    const auto changes = input_changes(before, look(largest));
    return changes.empty() ? "" : changes.front().text;
  }
  TemporaryFolder folder_;
};

TEST_F(InputRecord, CopiedOrTouchedFilesCountAsUnchanged) {
  const ordered_json before = look();
  EXPECT_EQ(before["/data/root"]["files"], 2);
  EXPECT_EQ(before["/data/root"]["bytes"], 6);
  fs::copy(folder_ / "photos", folder_ / "copy", fs::copy_options::recursive);
  fs::remove_all(folder_ / "photos");
  fs::rename(folder_ / "copy", folder_ / "photos");
  EXPECT_EQ(change_since(before), "");
  EXPECT_EQ(before.dump().find(folder_.path().string()), std::string::npos)
      << "no path is recorded";
}

TEST_F(InputRecord, ChangedContentsOfTheSameSizeAreDetected) {
  const ordered_json before = look();
  const fs::path file = folder_ / "photos/cat/1.jpg";
  const auto time = fs::last_write_time(file);
  folder_.write("photos/cat/1.jpg", "eno");
  fs::last_write_time(file, time);
  EXPECT_EQ(change_since(before), "has the same files with different contents");
}

TEST_F(InputRecord, NewRenamedAndMissingFilesAreDetected) {
  const ordered_json before = look();
  fs::rename(folder_ / "photos/cat/1.jpg", folder_ / "photos/dog/1.jpg");
  EXPECT_EQ(change_since(before),
            "has other files: 2 files with 6 B as before, with different names or sizes");
  folder_.write("photos/dog/3.jpg", "three");
  EXPECT_EQ(change_since(before), "was 2 files with 6 B and is now 3 files with 11 B");
  fs::remove_all(folder_ / "photos");
  EXPECT_EQ(change_since(before), "no longer exists; it was 2 files with 6 B");
}

TEST_F(InputRecord, LargeInputsAreComparedByModificationTime) {
  const ordered_json before = look(5);
  EXPECT_EQ(before["/data/root"]["contents"], nullptr);
  EXPECT_EQ(change_since(before, 5), "");
  EXPECT_EQ(change_since(before), "") << "contents are compared only if both records have them";
  const fs::path file = folder_ / "photos/cat/1.jpg";
  fs::last_write_time(file, fs::last_write_time(file) + std::chrono::seconds(1));
  EXPECT_EQ(change_since(before, 5),
            "may have changed: its files have different modification times, and the record does "
            "not have a digest of their contents");
}

TEST_F(InputRecord, RunFoldersAndHiddenFilesAreNotInputs) {
  const ordered_json before = look();
  folder_.write("photos/.cache/x", "x");
  folder_.write("photos/out/.retort/run.json", "{}");
  folder_.write("photos/out/log.txt", "x");
  folder_.write("photos/multi/sweep.jsonl", "{}");
  folder_.write("photos/multi/results.csv", "x");
  fs::create_directory_symlink(folder_ / "photos", folder_ / "photos/again");
  EXPECT_EQ(change_since(before), "");
}

TEST_F(InputRecord, InputsMissingAtFirstAreNotCompared) {
  const ordered_json before = input_record({{"/data/root", folder_ / "later"}});
  EXPECT_EQ(before["/data/root"], nullptr);
  EXPECT_EQ(change_since(before), "");
}

TEST_F(InputRecord, DamagedRecordsCauseNoCrash) {
  for (const char* text :
       {"null", "3", "[]", R"({"/data/root": 3})", R"({"/data/root": null})", R"({"/a": {}})"})
    EXPECT_TRUE(input_changes(ordered_json::parse(text), look()).empty()) << text;
  EXPECT_EQ(input_changes(ordered_json::parse(R"({"/data/root": {}})"), look()).front().text,
            "was unknown and is now 2 files with 6 B");
}

TEST_F(InputRecord, PathsComeFromTheSchemasOfTheStages) {
  Sources sources;
  auto recipe = read_yaml(
      sources.add("r.yaml",
                  "run: {dir: out}\n"
                  "data: {kind: data.image_folder, root: photos}\n"
                  "model: {kind: model.linear_probe, backbone: {kind: model.clip_vision, weights: "
                  "'hf:no/body'}}\n"
                  "train: {kind: train.supervised, warm_start: /w/a.safetensors}\n"));
  ASSERT_TRUE(recipe);
  std::vector<std::string> found;
  for (const InputPath& input : input_paths(*recipe, shipped_schemas(), "/base"))
    found.push_back(input.pointer + " " + input.path.string());
  EXPECT_THAT(found, ElementsAre("/data/root /base/photos", "/train/warm_start /w/a.safetensors"));
}

}  // namespace
}  // namespace runner
