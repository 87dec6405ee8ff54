// End-to-end tests of `retort export`: the files exist, and the target libraries compute the same
// results from them.

#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/export_fixture.h"

namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
namespace fs = std::filesystem;

INSTANTIATE_TEST_SUITE_P(Of, Export, testing::Values(kClip),
                         [](const auto& info) { return info.param.name; });

TEST_P(Export, WritesMergedAndAdapterWithoutOverwriting) {
  ASSERT_EQ(train(GetParam(), "lora", "", "run").exit, 0);
  const Ended merged = exported("run", "--merged", "merged");
  EXPECT_EQ(merged.exit, 0) << merged.err;
  EXPECT_EQ(merged.out,
            "merged/README.md\nmerged/classes.json\nmerged/config.json\nmerged/head.safetensors\n"
            "merged/model.safetensors\nmerged/preprocessor_config.json\n");
  const Ended adapter = exported("run", "--adapter", "adapter");
  EXPECT_EQ(adapter.out,
            "adapter/README.md\nadapter/adapter_config.json\nadapter/adapter_model.safetensors\n"
            "adapter/base/config.json\nadapter/base/model.safetensors\nadapter/base/"
            "preprocessor_config.json\n"
            "adapter/classes.json\nadapter/head.safetensors\nadapter/preprocessor_config.json\n");
  EXPECT_THAT(adapter.err,
              HasSubstr("export: the adapter's base weights are also written, to base/"));
  const Ended again = exported("run", "--merged", "merged");
  EXPECT_EQ(again.exit, 73);
  EXPECT_THAT(again.err, HasSubstr("error[E0610]: 'merged' already exists"));
  EXPECT_EQ(run_shell("ls -A | grep part", folder_.path()).out, "");
}

TEST_P(Export, ModelFromScratchIsExportedForTransformers) {
  const Ended ran = retort(
      "run classify data.root=photos data.image_size=24 epochs=1 batch_size=8 run.dir=run -q",
      folder_.path());
  ASSERT_EQ(ran.exit, 0) << ran.err;
  const Ended ended = retort("export run", folder_.path());
  ASSERT_EQ(ended.exit, 0) << ended.err;
  const std::string folder = "run/export/train-merged/";
  EXPECT_THAT(ended.out, testing::StartsWith(folder + "README.md\n"));
  const json classes = parsed(folder + "classes.json");
  ASSERT_EQ(classes.size(), 3u);
  json config = {{"model_type", "clip_vision_model"},
                 {"architectures", {"CLIPVisionModel"}},
                 {"hidden_size", 128},
                 {"intermediate_size", 512},
                 {"num_hidden_layers", 4},
                 {"num_attention_heads", 4},
                 {"num_channels", 3},
                 {"image_size", 24},
                 {"patch_size", 12},
                 {"hidden_act", "quick_gelu"},
                 {"layer_norm_eps", 1e-5},
                 {"attention_dropout", 0.0},
                 {"torch_dtype", "float32"}};
  for (std::size_t label = 0; label < classes.size(); ++label) {
    config["id2label"][std::to_string(label)] = classes[label];
    config["label2id"][classes[label].get<std::string>()] = label;
  }
  EXPECT_EQ(parsed(folder + "config.json"), config);
  const auto weights = tensors(folder + "model.safetensors");
  EXPECT_EQ(weights.size(), 7 + 4 * 16u);
  EXPECT_EQ(weights.at("vision_model.embeddings.class_embedding"), "F32 [128]");
  EXPECT_EQ(weights.at("vision_model.embeddings.patch_embedding.weight"), "F32 [128,3,12,12]");
  EXPECT_EQ(weights.at("vision_model.embeddings.position_embedding.weight"), "F32 [5,128]");
  EXPECT_EQ(weights.at("vision_model.encoder.layers.3.mlp.fc1.weight"), "F32 [512,128]");
  EXPECT_EQ(weights.at("vision_model.pre_layrnorm.weight"), "F32 [128]");
  EXPECT_EQ(tensors(folder + "head.safetensors"),
            (std::map<std::string, std::string>{{"bias", "F32 [3]"}, {"weight", "F32 [3,128]"}}));
  EXPECT_EQ(parsed(folder + "preprocessor_config.json")["size"], (json{{"shortest_edge", 24}}));
  EXPECT_THAT(
      file_text(folder_ / folder / "README.md"),
      testing::AllOf(
          HasSubstr("\nfrom transformers import AutoImageProcessor, AutoModel\n"),
          HasSubstr("\nmodel = AutoModel.from_pretrained(folder)\n"),
          HasSubstr(
              "\nprocessor = AutoImageProcessor.from_pretrained(folder, backend=\"pil\")\n")));
  EXPECT_EQ(retort("export run --torchscript", folder_.path()).out,
            "run/export/train-torchscript/README.md\nrun/export/train-torchscript/classes.json\n"
            "run/export/train-torchscript/model.pt\nrun/export/train-torchscript/"
            "preprocessor_config.json\n");
  const Ended adapter = retort("export run --adapter", folder_.path());
  EXPECT_THAT(adapter.err,
              HasSubstr("error[E0314]: the model has no adapters: all its weights were trained"));
}

TEST_P(Export, AdapterNamesItsBaseAndTransformers5Modules) {
  ASSERT_EQ(train(GetParam(), "linear_probe", "epochs=1", "probe").exit, 0);
  ASSERT_EQ(exported("probe", "", "base").exit, 0);
  const std::string on_base =
      "epochs=1 model.backbone.weights=base model.targets=[q_proj,fc1] model.rank=4";
  const Ended trained = train(GetParam(), "lora", on_base, "run");
  ASSERT_EQ(trained.exit, 0) << trained.err;
  ASSERT_EQ(exported("run", "--adapter", "adapter").exit, 0);
  EXPECT_FALSE(fs::exists(folder_ / "adapter/base"));
  const json config = parsed("adapter/adapter_config.json");
  EXPECT_EQ(config["base_model_name_or_path"], fs::canonical(folder_ / "base").string());
  EXPECT_EQ(config["auto_mapping"],
            (json{{"base_model_class", "CLIPVisionModel"},
                  {"parent_library", "transformers.models.clip.modeling_clip"}}));
  EXPECT_EQ(config["target_modules"], (json{"q_proj", "fc1"}));
  EXPECT_EQ(tensors("adapter/adapter_model.safetensors")
                .at("base_model.model.encoder.layers.0.self_attn.q_proj.lora_A.weight"),
            "F32 [4,48]");
  ASSERT_EQ(exported("run", "--adapter --names transformers4", "old").exit, 0);
  EXPECT_EQ(tensors("old/adapter_model.safetensors")
                .at("base_model.model.vision_model.encoder.layers.1.mlp.fc1.lora_B.weight"),
            "F32 [96,4]");
  const Ended none = exported("run", "--adapter --names timm", "timm");
  EXPECT_THAT(none.err, HasSubstr("error[E0314]: timm's CLIP has no layer for the adapter of "
                                  "'vision_model.encoder.layers.0.self_attn.q_proj'"));
  EXPECT_FALSE(fs::exists(folder_ / "timm"));
}

TEST_P(Export, TrainingContinuesFromAnExportedAdapter) {
  ASSERT_EQ(train(GetParam(), "lora", "", "first").exit, 0);
  ASSERT_EQ(exported("first", "--adapter", "adapter").exit, 0);
  const Ended second =
      train(GetParam(), "lora", "model.adapter=adapter epochs=1 lr=1e-12", "second");
  ASSERT_EQ(second.exit, 0) << second.err;
  const json before = predicted("first"), after = predicted("second");
  ASSERT_EQ(before.size(), 3u);
  ASSERT_EQ(after.size(), 3u);
  for (std::size_t i = 0; i < before.size(); ++i) {
    for (std::size_t j = 0; j < 3; ++j) EXPECT_NEAR(after[i][j], before[i][j], 1e-5);
  }
}

TEST_P(Export, InvalidExportsAreRejected) {
  ASSERT_EQ(train(GetParam(), "linear_probe", "epochs=1", "probe").exit, 0);
  const Ended adapter = exported("probe", "--adapter", "out");
  EXPECT_THAT(
      adapter.err,
      HasSubstr("error[E0314]: the model has no adapters: a linear probe trains only its head"));
  EXPECT_FALSE(fs::exists(folder_ / "out"));
  EXPECT_EQ(run_shell("ls -A | grep part", folder_.path()).out, "");
  const Ended names = retort("export probe --names timm", folder_.path());
  EXPECT_EQ(names.exit, 64);
  EXPECT_THAT(names.err, HasSubstr("--names applies only to --adapter"));
  EXPECT_EQ(retort("export probe --adapter --torchscript", folder_.path()).exit, 64);
}

class DeepImport : public Export {};
INSTANTIATE_TEST_SUITE_P(
    Deep, DeepImport,
    testing::Values(Backbone{"clip_folder", "clip", "libraries/clip"},
                    Backbone{"clip_sharded", "clip", "libraries/clip_sharded"},
                    Backbone{"clip_zip", "clip", "libraries/clip.pt"},
                    Backbone{"clip_old_stream", "clip", "libraries/clip_old.pth"},
                    Backbone{"vit_folder", "vit", "libraries/vit"},
                    Backbone{"dinov2_folder", "dinov2", "libraries/dinov2"},
                    Backbone{"timm_old_stream", "timm", "libraries/timm_old.pth"},
                    Backbone{"timm_wrapped", "timm", "libraries/timm.pth"}),
    [](const auto& info) { return info.param.name; });

// Import and export again: the other library's weights come back bit for bit.
TEST_P(DeepImport, WeightsRoundTrip) {
  if (!torch_python()) GTEST_SKIP() << kNoTorchPython;
  fs::create_directory(folder_ / "libraries");
  const Ended written = other_libraries("write libraries", folder_.path());
  ASSERT_EQ(written.exit, 0) << written.err;
  const std::string& weights = GetParam().options;
  const Backbone& shape = GetParam().library == "clip"     ? kClip
                          : GetParam().library == "vit"    ? kVit
                          : GetParam().library == "dinov2" ? kDinov2Registers
                                                           : kTimm;
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
  const Ended compared =
      other_libraries("compare " + original + " merged/model.safetensors", folder_.path());
  EXPECT_EQ(compared.exit, 0) << compared.err;
}

INSTANTIATE_TEST_SUITE_P(Deep, DeepExport,
                         testing::Values(kClip, kVit, kTimm, kDinov2, kDinov2Registers,
                                         kDinov2OfTimm),
                         [](const auto& info) { return info.param.name; });

TEST_P(DeepExport, ReadmeProgramsMakeTheSamePredictions) {
  if (!torch_python()) GTEST_SKIP() << kNoTorchPython;
  ASSERT_EQ(train(GetParam(), "linear_probe", "", "probe").exit, 0);
  expect_the_same_predictions("probe", "");
  expect_the_same_predictions("probe", "--torchscript");
  ASSERT_EQ(train(GetParam(), "lora", "model.bias=lora_only", "run").exit, 0);
  expect_the_same_predictions("run", "");
  expect_the_same_predictions("run", "--torchscript");
  expect_the_same_predictions("run", "--adapter");
  if (GetParam().library == "vit")
    expect_the_same_predictions("run", "--adapter --head-inside --out head_inside");
  // Trains on a base that was exported before, with the layer names from its config.
  const Ended trained =
      train(GetParam(), "lora", "model.backbone.weights=probe/export/train-merged", "on_base");
  ASSERT_EQ(trained.exit, 0) << trained.err;
  expect_the_same_predictions("on_base", "--adapter --out on_base_adapter");
  EXPECT_FALSE(fs::exists(folder_ / "on_base_adapter/base"));
  if (GetParam().library != "clip") return;
  for (const std::string feature : {"projected", "projected_before_norm"}) {
    const std::string more = "model.backbone.projection_dim=24 model.backbone.features=" + feature;
    ASSERT_EQ(train(GetParam(), "lora", more, feature).exit, 0);
    expect_the_same_predictions(feature, "");
    expect_the_same_predictions(feature, "--adapter");
    expect_the_same_predictions(feature, "--torchscript");
  }
}

TEST_P(DeepExport, AutoClassesLoadAModelTrainedFromScratch) {
  if (GetParam().library != "clip") GTEST_SKIP() << "one family is trained from scratch";
  if (!torch_python()) GTEST_SKIP() << kNoTorchPython;
  const Ended ran = retort(
      "run classify data.root=photos data.image_size=24 data.resize.crop_fraction=0.8 epochs=2 "
      "batch_size=8 model.hidden_act=gelu run.dir=run -q",
      folder_.path());
  ASSERT_EQ(ran.exit, 0) << ran.err;
  expect_the_same_predictions("run", "");
  const Ended loaded = other_libraries(
      "features run/export/train-merged " + images().substr(0, images().find(' ')), folder_.path());
  EXPECT_THAT(loaded.out, HasSubstr("[\"CLIPImageProcessor\", \"CLIPVisionModel\", [1, 5, 128]]"))
      << loaded.err;
}

TEST_P(DeepExport, PeftAdapterRoundTrips) {
  if (GetParam().library != "clip") GTEST_SKIP() << "one layout is enough";
  if (!torch_python()) GTEST_SKIP() << kNoTorchPython;
  fs::create_directory(folder_ / "libraries");
  ASSERT_EQ(other_libraries("write libraries", folder_.path()).exit, 0);
  const Ended trained =
      train(GetParam(), "lora",
            "model.backbone.weights=libraries/clip model.adapter=libraries/adapter model.rank=4 "
            "model.alpha=8 model.dropout=0 model.targets=[q_proj,v_proj] lr=1e-40 ",
            "run");
  ASSERT_EQ(trained.exit, 0) << trained.err;
  ASSERT_EQ(exported("run", "--adapter", "adapter").exit, 0);
  const Ended compared = other_libraries(
      "compare libraries/adapter/adapter_model.safetensors "
      "adapter/adapter_model.safetensors",
      folder_.path());
  EXPECT_EQ(compared.exit, 0) << compared.err;
}

}  // namespace
