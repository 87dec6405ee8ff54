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

TEST(WeightNames, BlockWithoutANumberIsNotRecognized) {
  for (const std::string block : {"", ".", "x.", "1", "1x.", "-1."})
    EXPECT_EQ(our_name(WeightLayout::kTimm, "blocks." + block + "mlp.fc1.weight"), std::nullopt)
        << block;
}

}  // namespace
}  // namespace stages
