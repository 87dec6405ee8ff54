#include "stages/weights/saved_weights.h"

#include <cstdlib>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "runner/shared/disk/digest.h"
#include "runner/shared/stage/stage.h"
#include "stages/weights/safetensors.h"
#include "tests/support/refused.h"
#include "tests/support/temporary_folder.h"

namespace stages {
namespace {

namespace fs = std::filesystem;
using runner::ErrorCode;

/// Files written by torch.save (tests/golden/torch_files.py).
fs::path golden(const std::string& name) {
  return fs::path(RETORT_SOURCE_DIR) / "tests/golden/torch_files" / name;
}

class SavedWeightsTest : public testing::Test {
 protected:
  runner::Diagnostics refusal(const std::string& reference) const {
    return refusals_of([&] { read_saved_weights(reference); });
  }
  std::string at(const std::string& name) const { return folder_ / name; }
  /// Writes two shards, with `a` and `b` and with `c`, and their index.
  void write_shards(const std::string& map =
                        R"({"a": "1.safetensors", "b": "1.safetensors", "c": "2.safetensors"})") {
    write_safetensors(at("1.safetensors"), {{"b", torch::ones(2)}, {"a", torch::zeros(1)}});
    write_safetensors(at("2.safetensors"), {{"c", torch::ones(3)}});
    folder_.write("model.safetensors.index.json",
                  R"({"metadata": {"total_size": 24}, "weight_map": )" + map + "}");
  }

  const TemporaryFolder folder_;
};

std::string names_of_weights(const SavedWeights& weights) {
  std::string text;
  for (const auto& [name, tensor] : weights.tensors) text += (text.empty() ? "" : " ") + name;
  return text;
}

TEST(PlainWeightName, WrapperPrefixesAreRemovedEverywhere) {
  for (const char* name :
       {"layer.0.weight", "_orig_mod.layer.0.weight", "layer._orig_mod.0.weight",
        "_orig_mod._orig_mod.layer.0.weight", "layer.0._checkpoint_wrapped_module.weight",
        "_fsdp_wrapped_module.layer._fsdp_wrapped_module.0.weight"})
    EXPECT_EQ(plain_weight_name(name), "layer.0.weight") << name;
  EXPECT_EQ(plain_weight_name("my_orig_mod.weight"), "my_orig_mod.weight");
}

TEST(PlainWeightName, OldDenseNetNamesAreModernized) {
  EXPECT_EQ(plain_weight_name("features.denseblock1.denselayer12.norm.1.running_mean"),
            "features.denseblock1.denselayer12.norm1.running_mean");
  EXPECT_EQ(plain_weight_name("features.denseblock1.denselayer1.conv.2.weight"),
            "features.denseblock1.denselayer1.conv2.weight");
  EXPECT_EQ(plain_weight_name("features.norm.1.weight"), "features.norm.1.weight");
}

TEST_F(SavedWeightsTest, NamesArePlainAndAnEntryCanBeSelected) {
  write_safetensors(at("a.safetensors"), {{"student._orig_mod.w", torch::zeros(2)},
                                          {"teacher._orig_mod.w", torch::ones(2)}});
  EXPECT_EQ(names_of_weights(read_saved_weights(at("a.safetensors"))), "student.w teacher.w");
  const SavedWeights chosen =
      read_saved_weights(at("a.safetensors"), WeightContents::kNumbers, "teacher");
  EXPECT_EQ(names_of_weights(chosen), "w");
  EXPECT_TRUE(chosen.tensors.at("w").equal(torch::ones(2)));
  EXPECT_EQ(chosen.choice(), "'teacher' of it, without '_orig_mod.', ");
  std::vector<std::string> seen;
  const WeightSink sink{.wants = [](const std::string& name) { return name == "w"; },
                        .take = [&](const WeightPiece& piece) { seen.push_back(piece.tensor); }};
  read_saved_weights(at("a.safetensors"), chosen.sha256, sink, "teacher");
  EXPECT_EQ(seen, std::vector<std::string>{"w"});
  EXPECT_REFUSED(read_saved_weights(at("a.safetensors"), WeightContents::kShapes, "ema"),
                 kOptionConflict, "", at("a.safetensors"), "'ema'");
}

TEST_F(SavedWeightsTest, SafetensorsFileIsReadWithTheConfigNextToIt) {
  write_safetensors(at("any.safetensors"),
                    {{"b", torch::ones({2}, torch::kHalf)}, {"a", torch::zeros({1, 3})}});
  folder_.write("config.json", R"({"hidden_size": 8})");
  const SavedWeights read = read_saved_weights(at("any.safetensors"));
  EXPECT_EQ(names_of_weights(read), "a b");
  EXPECT_EQ(read.tensors.at("b").scalar_type(), torch::kHalf);
  EXPECT_EQ(read.config.value().at("hidden_size"), 8);
  EXPECT_EQ(read.where, at("any.safetensors"));
  EXPECT_EQ(read.sha256, runner::sha256(folder_.read("any.safetensors")));
}

TEST_F(SavedWeightsTest, AllShardsAreReadIfTheyMatchTheDigest) {
  write_shards();
  const std::string sha256 = weights_sha256(at(""));
  std::string seen;
  const WeightSink sink{.wants = [](const std::string& name) { return name != "a"; },
                        .take = [&](const WeightPiece& piece) { seen += piece.tensor; }};
  read_saved_weights(at(""), sha256, sink);
  EXPECT_EQ(seen, "bc");
  write_safetensors(at("2.safetensors"), {{"c", torch::zeros(3)}});
  EXPECT_REFUSED(read_saved_weights(at(""), sha256, sink), kDamagedWeights, "", "has changed");
}

TEST_F(SavedWeightsTest, ShardShapesAreReadWithoutDataOrDigest) {
  write_shards();
  const SavedWeights read = read_saved_weights(at(""), WeightContents::kShapes);
  EXPECT_EQ(names_of_weights(read), "a b c");
  EXPECT_TRUE(read.tensors.at("c").is_meta());
  EXPECT_EQ(read.tensors.at("c").sizes(), at::IntArrayRef({3}));
  EXPECT_EQ(read.sha256, "");
}

TEST_F(SavedWeightsTest, FileFormatIsDetectedByContent) {
  write_safetensors(at("a.bin"), {{"a", torch::ones(1)}});
  fs::copy_file(golden("state_stream.pth"), at("b.weights"));
  EXPECT_EQ(names_of_weights(read_saved_weights(at("a.bin"))), "a");
  EXPECT_EQ(read_saved_weights(at("b.weights")).tensors.size(), 7);
}

TEST_F(SavedWeightsTest, ModelInACheckpointIsReported) {
  EXPECT_EQ(read_saved_weights(golden("checkpoint.pth")).inside, "state_dict");
  EXPECT_EQ(read_saved_weights(golden("state.pth")).inside, "");
}

TEST_F(SavedWeightsTest, ConfigThatIsNotAnObjectIsRejected) {
  write_safetensors(at("a.safetensors"), {{"a", torch::ones(1)}});
  EXPECT_FALSE(read_saved_weights(at("a.safetensors")).config);
  const std::pair<const char*, const char*> configs[] = {
      {"[", "it is not JSON"},
      {"[]", "it is not a JSON object"},
      {R"({"a": 1, "a": 2})", "the name 'a' appears twice"}};
  for (const auto& [config, why] : configs) {
    folder_.write("config.json", config);
    EXPECT_REFUSED(refusal(at("a.safetensors")), kDamagedWeights, "", "/config.json'", why);
  }
}

TEST_F(SavedWeightsTest, ModelFolderUsesTheFileOrderOfTransformers) {
  fs::copy_file(golden("state.pth"), at("open_clip_pytorch_model.bin"));
  EXPECT_EQ(find_weights(at("")), at("open_clip_pytorch_model.bin"));
  fs::copy_file(golden("state.pth"), at("pytorch_model.bin"));
  EXPECT_EQ(find_weights(at("")), at("pytorch_model.bin"));
  write_shards();
  EXPECT_EQ(find_weights(at("")), at("model.safetensors.index.json"));
  write_safetensors(at("model.safetensors"), {{"w", torch::ones(1)}});
  EXPECT_EQ(find_weights(at("")), at("model.safetensors"));
  EXPECT_EQ(names_of_weights(read_saved_weights(at(""))), "w");
}

TEST_F(SavedWeightsTest, AdapterIsReadWithItsConfig) {
  write_safetensors(at("adapter_model.safetensors"), {{"w", torch::ones(1)}});
  folder_.write("config.json", "{}");
  folder_.write("adapter_config.json", R"({"r": 8})");
  EXPECT_EQ(read_saved_weights(at("")).config.value().at("r"), 8);
  fs::remove(at("adapter_model.safetensors"));
  fs::copy_file(golden("state_stream.pth"), at("adapter_model.bin"));
  EXPECT_EQ(read_saved_weights(at("")).config.value().at("r"), 8);
  EXPECT_EQ(read_saved_weights(at("")).where, at("adapter_model.bin"));
}

TEST_F(SavedWeightsTest, MissingPathIsReported) {
  EXPECT_REFUSED(refusal(at("none")), kMissingWeights, "", "/none'", "hf:ORG/NAME");
  fs::create_directory(at("folder"));
  EXPECT_REFUSED(refusal(at("folder")), kMissingWeights, "", "/folder'", "model.safetensors");
  folder_.write("folder/ViT-B-32.pt", "");
  EXPECT_REFUSED(refusal(at("folder")), kMissingWeights, "", "folder/ViT-B-32.pt");
}

TEST_F(SavedWeightsTest, FolderWithAModelAndAnAdapterIsAmbiguous) {
  write_safetensors(at("model.safetensors"), {});
  write_safetensors(at("adapter_model.safetensors"), {});
  EXPECT_REFUSED(refusal(at(".")), kMissingWeights, "", "'model.safetensors'",
                 "'adapter_model.safetensors'");
}

TEST_F(SavedWeightsTest, ForeignFileIsRejected) {
  folder_.write("a.bin", "version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 3\n");
  EXPECT_REFUSED(refusal(at("a.bin")), kDamagedWeights, "", "git lfs pull");
  folder_.write("a.bin", "<html>");
  EXPECT_REFUSED(refusal(at("a.bin")), kDamagedWeights, "", "/a.bin'", "checksum");
  folder_.write("a.safetensors", "<html>");
  EXPECT_REFUSED(refusal(at("a.safetensors")), kDamagedWeights, "", "/a.safetensors'", "6 bytes");
}

TEST_F(SavedWeightsTest, ShardsAreCombined) {
  write_shards();
  const SavedWeights read = read_saved_weights(at(""));
  EXPECT_EQ(names_of_weights(read), "a b c");
  EXPECT_EQ(read.where, at("model.safetensors.index.json"));
  EXPECT_EQ(
      read.sha256,
      runner::sha256("1.safetensors " + runner::sha256(folder_.read("1.safetensors")) +
                     "\n2.safetensors " + runner::sha256(folder_.read("2.safetensors")) + "\n"));
  EXPECT_EQ(read_saved_weights(at("model.safetensors.index.json")).sha256, read.sha256);
}

TEST_F(SavedWeightsTest, TorchShardsAreCombined) {
  fs::copy_file(golden("parameters.pth"), at("pytorch_model-00001-of-00002.bin"));
  fs::copy_file(golden("parts.pth"), at("pytorch_model-00002-of-00002.bin"));
  folder_.write("pytorch_model.bin.index.json", R"({"weight_map": {
      "weight": "pytorch_model-00001-of-00002.bin", "frozen": "pytorch_model-00001-of-00002.bin",
      "head.weight": "pytorch_model-00002-of-00002.bin", "layers.0": "pytorch_model-00002-of-00002.bin",
      "layers.1": "pytorch_model-00002-of-00002.bin"}})");
  EXPECT_EQ(names_of_weights(read_saved_weights(at(""))),
            "frozen head.weight layers.0 layers.1 weight");
}

TEST_F(SavedWeightsTest, IndexMustMatchItsShards) {
  const std::string start = "'@/model.safetensors.index.json' does not match its file ",
                    end = " | fetch or write the file again";
  write_shards(R"({"a": "1.safetensors", "c": "2.safetensors"})");
  EXPECT_REFUSED(refusal(at("")), kDamagedWeights, "", "'1.safetensors'", "'b'");
  write_shards(R"({"a": "1.safetensors", "b": "2.safetensors", "c": "2.safetensors"})");
  EXPECT_REFUSED(refusal(at("")), kDamagedWeights, "", "'1.safetensors'", "'b'");
  write_shards(
      R"({"a": "1.safetensors", "b": "1.safetensors", "c": "2.safetensors", "d": "2.safetensors"})");
  EXPECT_REFUSED(refusal(at("")), kDamagedWeights, "", "'2.safetensors'", "'d'");
  write_shards(R"({"a": "1.safetensors", "b": "1.safetensors", "c": "3.safetensors"})");
  EXPECT_REFUSED(refusal(at("")), kMissingWeights, "", "'3.safetensors'");
}

TEST_F(SavedWeightsTest, InvalidIndexIsRejected) {
  const std::pair<const char*, const char*> indices[] = {
      {"", "it is not JSON"},
      {"[]", "it has no weight_map"},
      {R"({"weight_map": 1})", "it has no weight_map"},
      {R"({"weight_map": {}})", "its weight_map is empty"},
      {R"({"weight_map": {"a": "x", "a": "y"}})", "the name 'a' appears twice"},
      {R"({"weight_map": {"a": "../x"}})",
       R"(it has the tensor 'a' in "../x", which is not a file in the same folder)"},
      {R"({"weight_map": {"a": ".."}})",
       R"(it has the tensor 'a' in "..", which is not a file in the same folder)"},
      {R"({"weight_map": {"a": "/etc/passwd"}})",
       R"(it has the tensor 'a' in "/etc/passwd", which is not a file in the same folder)"},
      {R"({"weight_map": {"a": 1}})",
       "it has the tensor 'a' in 1, which is not a file in the same folder"},
  };
  for (const auto& [index, why] : indices) {
    folder_.write("model.safetensors.index.json", index);
    EXPECT_REFUSED(refusal(at("")), kDamagedWeights, "", "index.json'", why);
  }
}

class HubWeightsTest : public SavedWeightsTest {
 protected:
  HubWeightsTest() {
    ::setenv("HF_HUB_CACHE", at("hub").c_str(), 1);
    write_safetensors(folder_.write("hub/models--org--net/blobs/1234", ""),
                      {{"w", torch::ones(1)}});
    const std::string snapshot = "hub/models--org--net/snapshots/" + std::string(40, 'a');
    folder_.write(snapshot + "/config.json", R"({"model_type": "clip"})");
    fs::create_symlink("../../blobs/1234", at(snapshot + "/model.safetensors"));
    folder_.write("hub/models--org--net/refs/main", std::string(40, 'a'));
    folder_.write("hub/models--org--net/refs/refs/pr/1", std::string(40, 'a') + "\n");
  }
  ~HubWeightsTest() override { ::unsetenv("HF_HUB_CACHE"); }
};

TEST_F(HubWeightsTest, RevisionIsABranchAReferenceOrACommit) {
  for (const std::string reference : {"hf:org/net", "hf:org/net@main", "hf:org/net@refs/pr/1",
                                      "hf:org/net@aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}) {
    const SavedWeights read = read_saved_weights(reference);
    EXPECT_EQ(names_of_weights(read), "w") << reference;
    EXPECT_EQ(read.config.value().at("model_type"), "clip");
    EXPECT_EQ(read.where,
              at("hub/models--org--net/snapshots/" + std::string(40, 'a') + "/model.safetensors"));
  }
}

}  // namespace
}  // namespace stages
