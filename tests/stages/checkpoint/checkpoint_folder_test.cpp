#include "stages/checkpoint/checkpoint_folder.h"

#include <fstream>

#include <gtest/gtest.h>

#include "runner/shared/disk/digest.h"
#include "runner/shared/stage/stage.h"
#include "tests/support/forwarding_storage.h"
#include "tests/support/refused.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/training_states.h"

namespace stages {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFiles[] = {"model.safetensors", "optimizer.safetensors", "state.json",
                                  "manifest.json"};

class CheckpointFolderTest : public testing::Test {
 protected:
  CheckpointFolderTest() {
    write_checkpoint(folder_.path(), training_state(1234, 0.5), unflushed_);
  }

  /// Returns why the checkpoint is rejected.
  runner::Diagnostics refusal() const {
    return refusals_of([&] { read_checkpoint(folder_.path()); });
  }
  /// Returns why the checkpoint is rejected after `change` has been applied to its manifest.
  template <typename Change>
  runner::Diagnostics refusal_of_manifest(Change change) const {
    const std::string before = folder_.read("manifest.json");
    auto manifest = nlohmann::json::parse(before);
    change(manifest);
    folder_.write("manifest.json", manifest.dump());
    runner::Diagnostics found = refusal();
    folder_.write("manifest.json", before);
    return found;
  }

  TemporaryFolder folder_;
  UnflushedStorage unflushed_;
};

TEST_F(CheckpointFolderTest, RoundTripKeepsEverything) {
  expect_same(read_checkpoint(folder_.path()), training_state(1234, 0.5));
  EXPECT_EQ(state_json(read_checkpoint_state(folder_.path())),
            state_json(training_state(1234, 0.5)));
}

TEST_F(CheckpointFolderTest, ReadingWeightsChecksButDoesNotLoadTheOptimizer) {
  const TrainingState whole = read_checkpoint(folder_.path());
  ASSERT_GT(whole.optimizer.size(), 0u);
  const TrainingState state = read_checkpoint(folder_.path(), CheckpointPart::kWeights);
  EXPECT_EQ(state.optimizer.size(), 0u);
  EXPECT_EQ(state.model.size(), whole.model.size());
  EXPECT_EQ(state.step, whole.step);
  std::string optimizer = folder_.read("optimizer.safetensors");
  optimizer.back() = static_cast<char>(optimizer.back() ^ 1);
  folder_.write("optimizer.safetensors", optimizer);
  EXPECT_THROW(read_checkpoint(folder_.path(), CheckpointPart::kWeights), runner::StageError);
}

TEST_F(CheckpointFolderTest, ManifestHasSizeAndDigestOfEachFile) {
  const auto manifest = nlohmann::json::parse(folder_.read("manifest.json"));
  EXPECT_EQ(manifest["schema"], 1);
  ASSERT_EQ(manifest["files"].size(), 3);
  for (const auto& [name, file] : manifest["files"].items()) {
    EXPECT_EQ(file["size"], fs::file_size(folder_ / name));
    EXPECT_EQ(file["sha256"], runner::sha256(folder_.read(name)));
  }
}

TEST_F(CheckpointFolderTest, EveryFlippedBitIsDetected) {
  for (const char* name : kFiles) {
    const std::string whole = folder_.read(name);
    std::fstream file(folder_ / name, std::ios::in | std::ios::out | std::ios::binary);
    const auto put = [&](std::size_t i, int byte) {
      file.seekp(static_cast<std::streamoff>(i));
      file.put(static_cast<char>(byte)).flush();
    };
    for (std::size_t i = 0; i < whole.size(); ++i) {
      put(i, whole[i] ^ (1 << (i % 8)));
      ASSERT_FALSE(refusal().empty()) << name << ", byte " << i;
      put(i, whole[i]);
    }
  }
  EXPECT_THAT(refusal(), testing::IsEmpty());
}

TEST_F(CheckpointFolderTest, TruncatedFileIsDetected) {
  for (const char* name : kFiles) {
    const std::string whole = folder_.read(name);
    for (std::size_t size = 0; size + 1 < whole.size();
         size += 7) {  // without its last newline the manifest is whole
      folder_.write(name, whole.substr(0, size));
      ASSERT_FALSE(refusal().empty()) << name << " of " << size << " bytes";
    }
    folder_.write(name, whole);
  }
}

TEST_F(CheckpointFolderTest, DamagedFileIsReported) {
  const std::string model = folder_.read("model.safetensors");
  folder_.write("model.safetensors", model + "x");
  EXPECT_REFUSED(refusal(), kDamagedWeights, "", "model.safetensors",
                 std::to_string(model.size() + 1), std::to_string(model.size()));
  folder_.write("model.safetensors", model.substr(0, model.size() - 1) + "x");
  EXPECT_REFUSED(refusal(), kDamagedWeights, "", "model.safetensors", "SHA-256");
}

TEST_F(CheckpointFolderTest, MissingFileIsReported) {
  for (const char* name : kFiles) {
    const std::string whole = folder_.read(name);
    fs::remove(folder_ / name);
    EXPECT_REFUSED(refusal(), kDamagedWeights, "", name);
    fs::create_directory(folder_ / name);
    EXPECT_FALSE(refusal().empty());
    fs::remove(folder_ / name);
    folder_.write(name, whole);
  }
}

TEST_F(CheckpointFolderTest, ForeignManifestIsRejected) {
  EXPECT_REFUSED(refusal_of_manifest([](auto& m) { m["schema"] = 2; }), kDamagedWeights, "",
                 "manifest.json", "version 2", "version 1");
  EXPECT_REFUSED(refusal_of_manifest([](auto& m) { m = nlohmann::json::array(); }), kDamagedWeights,
                 "", "manifest.json");
  EXPECT_REFUSED(refusal_of_manifest([](auto& m) { m["files"]["../x"] = 1; }), kDamagedWeights, "",
                 "manifest.json");
  EXPECT_REFUSED(refusal_of_manifest([](auto& m) {
                   m["files"]["x"] = m["files"]["state.json"];
                   m["files"].erase("state.json");
                 }),
                 kDamagedWeights, "", "state.json");
  EXPECT_REFUSED(refusal_of_manifest([](auto& m) { m["files"]["state.json"]["size"] = -1; }),
                 kDamagedWeights, "", "state.json");
  folder_.write("manifest.json", std::string(65537, ' '));
  EXPECT_REFUSED(refusal(), kDamagedWeights, "", "65537 bytes");
}

TEST_F(CheckpointFolderTest, FileThatMatchesTheManifestIsStillChecked) {
  const auto vouch = [&](const char* name, const std::string& text) {
    folder_.write(name, text);
    auto manifest = nlohmann::json::parse(folder_.read("manifest.json"));
    manifest["files"][name] = {{"size", text.size()}, {"sha256", runner::sha256(text)}};
    folder_.write("manifest.json", manifest.dump());
    return refusal();
  };
  EXPECT_REFUSED(vouch("optimizer.safetensors", "short"), kDamagedWeights, "",
                 "optimizer.safetensors", "5 bytes");
  EXPECT_REFUSED(vouch("state.json", "{}"), kDamagedWeights, "", "'step'");
}

TEST_F(CheckpointFolderTest, SizeIsNotUnderestimated) {
  TrainingState state = training_state(1, 0.5);
  for (int i = 0; i < 100; ++i) {
    state.model.set(std::string(200, '\n') + std::to_string(i),
                    torch::zeros({1, 1, 1, 1, 1, 1, 1, 1}));
  }
  const TemporaryFolder folder;
  write_checkpoint(folder.path(), state, unflushed_);
  std::int64_t size = 0;
  for (const char* name : kFiles) size += static_cast<std::int64_t>(fs::file_size(folder / name));
  EXPECT_GE(checkpoint_bytes(state), size);
  EXPECT_LE(checkpoint_bytes(state), size + 64 * 1024);
}

}  // namespace
}  // namespace stages
