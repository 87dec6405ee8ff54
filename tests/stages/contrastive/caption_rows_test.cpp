#include "stages/contrastive/caption_rows.h"

#include <gtest/gtest.h>
#include <torch/types.h>

namespace stages {
namespace {

/// Captions 0, 1 and 2 of three, four and five tokens, in a context of seven.
TokenizedTexts three_captions() {
  return {.ids = torch::tensor(std::vector<std::int64_t>{8, 1, 9, 9, 9, 9, 9,  //
                                                         8, 2, 3, 9, 9, 9, 9,  //
                                                         8, 4, 5, 6, 9, 9, 9})
                     .view({3, 7}),
          .lengths = {3, 4, 5},
          .cut = {}};
}

Batch batch_of(const std::vector<std::int64_t>& captions) {
  const auto count = static_cast<std::int64_t>(captions.size());
  return Batch({{"image", torch::arange(count)}, {"caption", torch::tensor(captions)}}, count);
}

std::vector<std::int64_t> numbers(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.flatten().contiguous();
  return {flat.const_data_ptr<std::int64_t>(), flat.const_data_ptr<std::int64_t>() + flat.numel()};
}

using Numbers = std::vector<std::int64_t>;

TEST(CaptionRows, EachCaptionIsStoredAtItsFirstOccurrence) {
  const Batch batch = CaptionRows(three_captions(), {}).arranged(batch_of({1, 1, 0, 1, 0}));
  EXPECT_EQ(batch.units(), 5);
  EXPECT_EQ(numbers(batch["caption_row"]), (Numbers{0, 0, 1, 0, 1}));
  EXPECT_EQ(numbers(batch["tokens"]), (Numbers{8, 2, 3, 9, 8, 1, 9, 9}));  // cut to the longest
  EXPECT_EQ(numbers(batch["equal_caption"]), numbers(batch["caption_row"]));
  EXPECT_FALSE(batch.tensors().contains("caption"));
  const Batch first = batch.part(0, 2), second = batch.part(2, 4), third = batch.part(4, 5);
  EXPECT_EQ(numbers(first["tokens"]), (Numbers{8, 2, 3, 9}));
  EXPECT_EQ(numbers(second["tokens"]), (Numbers{8, 1, 9, 9}));
  EXPECT_EQ(third["tokens"].size(0), 0);
  EXPECT_EQ(numbers(second["image"]), (Numbers{2, 3}));
}

TEST(CaptionRows, TrimmingAndMergingCanBeDisabled) {
  const Batch batch = CaptionRows(three_captions(), {.trims = false, .encodes_once = false})
                          .arranged(batch_of({0, 0}));
  EXPECT_EQ(numbers(batch["tokens"]), (Numbers{8, 1, 9, 9, 9, 9, 9, 8, 1, 9, 9, 9, 9, 9}));
  EXPECT_EQ(numbers(batch["caption_row"]), (Numbers{0, 1}));
}

TEST(CaptionRows, EqualCaptionsAreMarkedEvenInSeparateRows) {
  const CaptionRows apart(three_captions(), {.encodes_once = false});
  const Batch batch = apart.arranged(batch_of({2, 0, 2, 0, 1}));
  EXPECT_EQ(numbers(batch["caption_row"]), (Numbers{0, 1, 2, 3, 4}));
  EXPECT_EQ(numbers(batch["equal_caption"]), (Numbers{0, 1, 0, 1, 4}));
  const CaptionRows within(three_captions(), {.encodes_once = false, .within = 3});
  EXPECT_EQ(numbers(within.arranged(batch_of({2, 0, 2, 0, 2}))["equal_caption"]),
            (Numbers{0, 1, 0, 3, 4}));
}

TEST(CaptionRows, SeparatelyComparedPartsHaveTheirOwnRows) {
  const Batch batch = CaptionRows(three_captions(), {.within = 2}).arranged(batch_of({2, 2, 2, 1}));
  EXPECT_EQ(numbers(batch["caption_row"]), (Numbers{0, 0, 1, 2}));
  EXPECT_EQ(batch.part(2, 4)["tokens"].size(0), 2);
}

TEST(CaptionRows, MetaDeviceAssumesAllCaptionsDiffer) {
  const auto meta = at::TensorOptions(at::kLong).device(at::kMeta);
  const Batch batch =
      CaptionRows(three_captions(), {})
          .arranged(
              Batch({{"image", torch::empty({5}, meta)}, {"caption", torch::empty({5}, meta)}}, 5));
  EXPECT_EQ(batch["tokens"].sizes(), (std::vector<std::int64_t>{3, 5}));
  EXPECT_TRUE(batch["tokens"].is_meta());
}

TEST(CaptionRows, ExtraRowsBelongToTheFirstSample) {
  const at::Tensor more = torch::ones({2, 3}, at::kLong);
  const Batch batch = CaptionRows(three_captions(), {}).arranged(batch_of({0, 1}), {}, more);
  EXPECT_EQ(batch.part(0, 1)["more_tokens"].size(0), 2);
  EXPECT_EQ(batch.part(1, 2)["more_tokens"].size(0), 0);
}

}  // namespace
}  // namespace stages
