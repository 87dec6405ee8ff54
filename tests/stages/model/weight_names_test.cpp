#include "stages/model/weight_names.h"

#include <gtest/gtest.h>

namespace stages {
namespace {

TEST(WeightNames, BlockNumbersMayHaveSeveralDigits) {
  for (const std::string number : {"0", "7", "10", "23", "104"}) {
    const std::string ours = "vision_model.encoder.layers." + number + ".mlp.fc1.weight";
    for (const auto& [layout, theirs] :
         {std::pair(WeightLayout::kClip,
                    "vision_model.encoder.layers." + number + ".mlp.fc1.weight"),
          std::pair(WeightLayout::kVit,
                    "vit.encoder.layer." + number + ".intermediate.dense.weight"),
          std::pair(WeightLayout::kTimm, "blocks." + number + ".mlp.fc1.weight"),
          std::pair(WeightLayout::kOpenClip,
                    "visual.transformer.resblocks." + number + ".mlp.c_fc.weight")}) {
      EXPECT_EQ(library_name(layout, ours), theirs);
      EXPECT_EQ(our_name(layout, theirs), ours);
    }
  }
}

TEST(WeightNames, LayerScalesHaveANameInEachLibrary) {
  const std::string ours = "vision_model.encoder.layers.3.layer_scale2.lambda1";
  for (const auto& [layout, theirs] :
       {std::pair(WeightLayout::kDinov2, "encoder.layer.3.layer_scale2.lambda1"),
        std::pair(WeightLayout::kDinov25, "encoder.layer.3.layer_scale2.lambda1"),
        std::pair(WeightLayout::kTimm, "blocks.3.ls2.gamma")}) {
    EXPECT_EQ(library_name(layout, ours), theirs);
    EXPECT_EQ(our_name(layout, theirs), ours);
  }
  EXPECT_EQ(library_name(WeightLayout::kVit, ours), std::nullopt);
}

TEST(WeightNames, TransformersVersion5RenamesVitAndDinov2) {
  for (const auto& [before, since] : {std::pair(WeightLayout::kVit, WeightLayout::kVit5),
                                      std::pair(WeightLayout::kDinov2, WeightLayout::kDinov25),
                                      std::pair(WeightLayout::kTimm, WeightLayout::kTimm)}) {
    EXPECT_EQ(since_version_5(before), since);
    EXPECT_EQ(in_files(since), before);
  }
}

TEST(WeightNames, BlockWithoutANumberIsNotRecognized) {
  for (const std::string block : {"", ".", "x.", "1", "1x.", "-1."})
    EXPECT_EQ(our_name(WeightLayout::kTimm, "blocks." + block + "mlp.fc1.weight"), std::nullopt)
        << block;
}

}  // namespace
}  // namespace stages
