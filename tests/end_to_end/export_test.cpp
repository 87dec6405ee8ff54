// What `retort export` writes: that it is there, and that the libraries it is for compute the same from it.

#include <cstdlib>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/program.h"

namespace {

using nlohmann::json;
using testing::HasSubstr;
namespace fs = std::filesystem;

/// A small backbone: its options, and the library that its exports are for.
struct Backbone {
  std::string name, library, options;
};

const std::string kShape =
    "model.backbone.hidden_size=48 model.backbone.intermediate_size=96 model.backbone.num_hidden_layers=2 "
    "model.backbone.num_attention_heads=4 model.backbone.patch_size=8 model.backbone.weights=null ";
const Backbone kClip = {"clip", "clip", "model/backbone=tiny " + kShape};
const Backbone kVit = {"vit", "vit", "model/backbone=vit_b16_hf " + kShape};
const Backbone kTimm = {"timm", "timm", "model/backbone=vit_b16_timm " + kShape};

class Export : public testing::TestWithParam<Backbone> {
 protected:
  void SetUp() override {
    const Ended made =
        retort("data make image_folder --out photos --classes 3 --per-class 8 --size 32 -q", folder_.path());
    ASSERT_EQ(made.exit, 0) << made.err;
  }
  Ended train(const Backbone& backbone, const std::string& model, const std::string& more, const std::string& name) {
    return retort(
        "run finetune data=image_folder data.root=photos data.image_size=32 data.augment.random_resized_crop=null "
        "data.augment.horizontal_flip=0 data.loader.workers=0 epochs=3 batch_size=8 "
        "train.gradient_accumulation_steps=1 lr=0.02 model=" +
            model + " " + backbone.options + more + " run.dir=" + name + " -q",
        folder_.path());
  }
  Ended exported(const std::string& run, const std::string& flags, const std::string& out) {
    return retort("export " + run + " " + flags + " --out " + out, folder_.path());
  }
  /// What `retort predict` says of three images: a row of probabilities in the order of the classes an image.
  json predicted(const std::string& run) {
    const Ended ended = retort("predict " + run + " --json --top 3 " + images(), folder_.path());
    EXPECT_EQ(ended.exit, 0) << ended.err;
    std::istringstream lines(ended.out);
    json rows = json::array();
    for (std::string line; std::getline(lines, line);) {
      std::map<std::string, double> by_class;
      const json prediction = json::parse(line);
      if (prediction.contains("schema")) break;
      for (const json& item : prediction["classes"]) by_class[item["class"]] = item["probability"];
      json row = json::array();
      for (const auto& [name, probability] : by_class) row.push_back(probability);
      rows.push_back(row);
    }
    return rows;
  }
  std::string images() const {
    std::string list;
    for (const auto& entry : fs::directory_iterator(folder_ / "photos")) {
      if (entry.is_directory()) list += "photos/" + entry.path().filename().string() + "/00000.jpg ";
    }
    return list;
  }
  json image_list() const {
    std::istringstream words(images());
    json list = json::array();
    for (std::string word; words >> word;) list.push_back((folder_ / word).string());
    return list;
  }
  TemporaryFolder folder_;
};
INSTANTIATE_TEST_SUITE_P(Of, Export, testing::Values(kClip), [](const auto& info) { return info.param.name; });

TEST_P(Export, MergedAndAdapterAreWrittenOnce) {
  ASSERT_EQ(train(GetParam(), "lora", "", "run").exit, 0);
  const Ended merged = exported("run", "--merged", "merged");
  EXPECT_EQ(merged.exit, 0) << merged.err;
  EXPECT_EQ(merged.out, "merged/classes.json\nmerged/config.json\nmerged/head.safetensors\nmerged/model.safetensors\n");
  const Ended adapter = exported("run", "--adapter", "adapter");
  EXPECT_EQ(adapter.out,
            "adapter/adapter_config.json\nadapter/adapter_model.safetensors\nadapter/classes.json\n"
            "adapter/head.safetensors\n");
  const Ended again = exported("run", "--merged", "merged");
  EXPECT_EQ(again.exit, 73);
  EXPECT_THAT(again.err, HasSubstr("error[E0610]: 'merged' exists already"));
  EXPECT_EQ(run_shell("ls -A | grep part", folder_.path()).out, "");
}

TEST_P(Export, AnotherTrainingContinuesFromAnAdapter) {
  ASSERT_EQ(train(GetParam(), "lora", "", "first").exit, 0);
  ASSERT_EQ(exported("first", "--adapter", "adapter").exit, 0);
  const Ended second = train(GetParam(), "lora", "model.adapter=adapter epochs=1 lr=1e-12", "second");
  ASSERT_EQ(second.exit, 0) << second.err;
  const json before = predicted("first"), after = predicted("second");
  ASSERT_EQ(before.size(), 3u);
  ASSERT_EQ(after.size(), 3u);
  for (std::size_t i = 0; i < before.size(); ++i) {
    for (std::size_t j = 0; j < 3; ++j) EXPECT_NEAR(after[i][j], before[i][j], 1e-5);
  }
}

TEST_P(Export, WhatCannotBeExportedIsRefused) {
  ASSERT_EQ(train(GetParam(), "linear_probe", "epochs=1", "probe").exit, 0);
  const Ended adapter = exported("probe", "--adapter", "out");
  EXPECT_THAT(adapter.err, HasSubstr("error[E0314]: the model has no adapters: a linear probe trains only its head"));
  EXPECT_FALSE(fs::exists(folder_ / "out"));
  EXPECT_EQ(run_shell("ls -A | grep part", folder_.path()).out, "");
  EXPECT_EQ(retort("export probe --out out", folder_.path()).exit, 64);
}

/// The Python with the libraries; empty: there is none.
std::string python() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const fs::path folder =
      (cache ? fs::path(cache) : fs::path(std::getenv("HOME")) / ".cache") / "retort/bench-python-2.11.0";
  const fs::path program = folder / "bin/python";
  return fs::exists(program) && file_text(folder / "packages.txt").find("peft") != std::string::npos ? program.string()
                                                                                                     : "";
}

Ended other_libraries(const std::string& arguments, const fs::path& folder) {
  return run_shell(python() + " " RETORT_SOURCE_DIR "/tests/end_to_end/other_libraries.py " + arguments, folder);
}

class DeepImport : public Export {};
INSTANTIATE_TEST_SUITE_P(Deep, DeepImport,
                         testing::Values(Backbone{"clip_folder", "clip", "libraries/clip"},
                                         Backbone{"clip_sharded", "clip", "libraries/clip_sharded"},
                                         Backbone{"clip_zip", "clip", "libraries/clip.pt"},
                                         Backbone{"clip_old_stream", "clip", "libraries/clip_old.pth"},
                                         Backbone{"vit_folder", "vit", "libraries/vit"},
                                         Backbone{"timm_old_stream", "timm", "libraries/timm_old.pth"},
                                         Backbone{"timm_wrapped", "timm", "libraries/timm.pth"}),
                         [](const auto& info) { return info.param.name; });

// In and out again: what a library has written comes back to it bit for bit.
TEST_P(DeepImport, WeightsComeBackAsTheyWere) {
  if (python().empty()) GTEST_SKIP() << "scripts/bench-python has made no Python";
  fs::create_directory(folder_ / "libraries");
  const Ended written = other_libraries("write libraries", folder_.path());
  ASSERT_EQ(written.exit, 0) << written.err;
  const std::string& weights = GetParam().options;
  const Backbone& shape = GetParam().library == "clip" ? kClip : GetParam().library == "vit" ? kVit : kTimm;
  const std::string more = "model.backbone.weights=" + weights +
                           (GetParam().library == "clip" ? " model.backbone.hidden_act=quick_gelu "
                                                           "model.backbone.layer_norm_eps=1e-5 "
                                                         : " ");
  const Ended trained = train(shape, "linear_probe", more, "run");
  ASSERT_EQ(trained.exit, 0) << trained.err;
  ASSERT_EQ(exported("run", "--merged", "merged").exit, 0);
  const bool is_folder = fs::is_directory(folder_ / weights);
  const std::string original = !is_folder ? weights
                               : fs::exists(folder_ / weights / "model.safetensors")
                                   ? weights + "/model.safetensors"
                                   : "libraries/clip/model.safetensors";
  const Ended compared = other_libraries("compare " + original + " merged/model.safetensors", folder_.path());
  EXPECT_EQ(compared.exit, 0) << compared.err;
}

class DeepExport : public Export {};
INSTANTIATE_TEST_SUITE_P(Deep, DeepExport, testing::Values(kClip, kVit, kTimm),
                         [](const auto& info) { return info.param.name; });

TEST_P(DeepExport, LibrariesComputeTheSame) {
  if (python().empty()) GTEST_SKIP() << "scripts/bench-python has made no Python";
  ASSERT_EQ(train(GetParam(), "lora", "", "run").exit, 0);
  // The same base with nothing added: an adapter whose B is still zero.
  ASSERT_EQ(train(GetParam(), "lora", "lr=1e-30", "base").exit, 0);
  ASSERT_EQ(train(GetParam(), "linear_probe", "", "probe").exit, 0);
  ASSERT_EQ(exported("run", "--merged", "merged").exit, 0);
  ASSERT_EQ(exported("probe", "--merged", "probe_merged").exit, 0);
  ASSERT_EQ(exported("base", "--merged", "base_merged").exit, 0);
  std::vector<std::string> names = {""};
  // The Python has transformers 5, whose modules bear these names.
  if (GetParam().library == "clip") names = {"--names clip_inner"};
  if (GetParam().library == "vit") names = {"--names hf_vit_v5"};
  ASSERT_EQ(exported("run", "--adapter " + names[0], "adapter").exit, 0);
  const json clip = {{"mean", {0.48145466, 0.4578275, 0.40821073}}, {"std", {0.26862954, 0.26130258, 0.27577711}}},
             half = {{"mean", {0.5, 0.5, 0.5}}, {"std", {0.5, 0.5, 0.5}}};
  const auto job = [&](const std::string& kind, const std::string& out) {
    json job = GetParam().library == "clip" ? clip : half;
    job.update({{"kind", kind},
                {"folder", (folder_ / out).string()},
                {"base", (folder_ / "base_merged").string()},
                {"library", GetParam().library},
                {"images", image_list()}});
    return job;
  };
  const json jobs = {job("merged", "merged"), job("adapter", "adapter"), job("merged", "probe_merged")};
  const Ended ended = other_libraries("predict '" + jobs.dump() + "'", folder_.path());
  ASSERT_EQ(ended.exit, 0) << ended.err;
  const json theirs = json::parse(ended.out.substr(ended.out.rfind("[[[")));
  const json ours = {predicted("run"), predicted("run"), predicted("probe")};
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    for (std::size_t row = 0; row < 3; ++row) {
      for (std::size_t label = 0; label < 3; ++label) {
        EXPECT_NEAR(theirs[i][row][label], ours[i][row][label], 2e-5) << jobs[i]["folder"] << row << label;
      }
    }
  }
}

TEST_P(DeepExport, AdapterOfPeftComesBackAsItWas) {
  if (GetParam().library != "clip") GTEST_SKIP() << "one layout shows it";
  if (python().empty()) GTEST_SKIP() << "scripts/bench-python has made no Python";
  fs::create_directory(folder_ / "libraries");
  ASSERT_EQ(other_libraries("write libraries", folder_.path()).exit, 0);
  const Ended trained = train(GetParam(), "lora",
                              "model.backbone.weights=libraries/clip model.adapter=libraries/adapter model.rank=4 "
                              "model.alpha=8 model.dropout=0 model.targets=[q_proj,v_proj] lr=1e-40 ",
                              "run");
  ASSERT_EQ(trained.exit, 0) << trained.err;
  ASSERT_EQ(exported("run", "--adapter --names clip_inner", "adapter").exit, 0);
  const Ended compared = other_libraries(
      "compare libraries/adapter/adapter_model.safetensors "
      "adapter/adapter_model.safetensors",
      folder_.path());
  EXPECT_EQ(compared.exit, 0) << compared.err;
}

}  // namespace
