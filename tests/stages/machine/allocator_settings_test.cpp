#include "stages/machine/allocator_settings.h"

#include <cstdlib>

#include <c10/core/AllocatorConfig.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runner/shared/stage/stage.h"
#include "tests/support/refused.h"

namespace stages {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// Restores LibTorch and the environment, as far as LibTorch allows.
class AllocatorConf : public testing::Test {
 protected:
  void TearDown() override {
    unsetenv("PYTORCH_ALLOC_CONF");
    unsetenv("PYTORCH_CUDA_ALLOC_CONF");
    c10::CachingAllocator::setAllocatorSettings(
        "expandable_segments:False");  // settings that are not given are reset
  }
};

TEST_F(AllocatorConf, IsWrittenInLibTorchSyntax) {
  EXPECT_EQ(to_text({}), "");
  EXPECT_EQ(to_text({.expandable_segments = false,
                     .max_split_size_mb = 128,
                     .garbage_collection_threshold = 0.8,
                     .roundup_power2_divisions = 4}),
            "expandable_segments:False,max_split_size_mb:128,garbage_collection_threshold:0.8,"
            "roundup_power2_divisions:4");
}

TEST_F(AllocatorConf, TakesEffect) {
  EXPECT_THAT(apply_settings({.expandable_segments = true,
                              .max_split_size_mb = {},
                              .garbage_collection_threshold = 0.8,
                              .roundup_power2_divisions = 4}),
              IsEmpty());
  const AllocatorSettings found = allocator_settings_in_force();
  EXPECT_EQ(found.expandable_segments, true);
  EXPECT_EQ(found.garbage_collection_threshold, 0.8);
  EXPECT_EQ(found.roundup_power2_divisions, 4);
  EXPECT_TRUE(c10::CachingAllocator::AcceleratorAllocatorConfig::use_expandable_segments());
}

TEST_F(AllocatorConf, SettingsMissingFromTheRecipeAreKept) {
  c10::CachingAllocator::setAllocatorSettings(
      "garbage_collection_threshold:0.5,max_split_size_mb:128");
  apply_settings({.expandable_segments = {},
                  .max_split_size_mb = 256,
                  .garbage_collection_threshold = {},
                  .roundup_power2_divisions = {}});
  EXPECT_EQ(allocator_settings_in_force().max_split_size_mb, 256);
  EXPECT_EQ(allocator_settings_in_force().garbage_collection_threshold, 0.5);
}

TEST_F(AllocatorConf, RecipeOverridesBothVariablesWithAReport) {
  setenv("PYTORCH_ALLOC_CONF", "expandable_segments:True, roundup_power2_divisions:[256:1,512:2]",
         1);
  setenv("PYTORCH_CUDA_ALLOC_CONF", "garbage_collection_threshold:0.5,expandable_segments:False",
         1);
  EXPECT_THAT(apply_settings({.expandable_segments = false,
                              .max_split_size_mb = {},
                              .garbage_collection_threshold = 0.5,
                              .roundup_power2_divisions = 4}),
              ElementsAre("allocator: expandable_segments: False from the recipe takes precedence "
                          "over PYTORCH_ALLOC_CONF, which sets True",
                          "allocator: roundup_power2_divisions: 4 from the recipe takes precedence "
                          "over PYTORCH_ALLOC_CONF, which sets [256:1,512:2]"));
  EXPECT_EQ(allocator_settings_in_force().expandable_segments, std::nullopt);
}

TEST_F(AllocatorConf, LastOfTwoValuesOfAVariableCounts) {
  setenv("PYTORCH_ALLOC_CONF", "garbage_collection_threshold:0.5,garbage_collection_threshold:0.8",
         1);
  AllocatorSettings wanted;
  wanted.garbage_collection_threshold = 0.8;
  EXPECT_THAT(apply_settings(wanted), IsEmpty());
  wanted.garbage_collection_threshold = 0.5;
  EXPECT_THAT(apply_settings(wanted),
              ElementsAre("allocator: garbage_collection_threshold: 0.5 from the recipe takes "
                          "precedence over PYTORCH_ALLOC_CONF, which sets 0.8"));
}

TEST_F(AllocatorConf, ConflictingSettingsFromAnySourceAreRejected) {
  const AllocatorSettings segments{.expandable_segments = true,
                                   .max_split_size_mb = {},
                                   .garbage_collection_threshold = {},
                                   .roundup_power2_divisions = {}};
  c10::CachingAllocator::setAllocatorSettings("max_split_size_mb:128");
  setenv("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:128", 1);
  EXPECT_REFUSED(apply_settings(segments), kOptionConflict, "/allocator", "max_split_size_mb 128",
                 "unset PYTORCH_CUDA_ALLOC_CONF");
}

TEST_F(AllocatorConf, ConflictBetweenTwoPoliciesIsNotBlamedOnTheEnvironment) {
  AllocatorSettings split, segments;
  split.max_split_size_mb = 256;
  segments.expandable_segments = true;
  setenv("PYTORCH_ALLOC_CONF", "max_split_size_mb:128", 1);  // the first policy overrides it
  apply_settings(split);
  EXPECT_REFUSED(apply_settings(segments), kOptionConflict, "/allocator", "max_split_size_mb 256",
                 "another memory policy of this run sets max_split_size_mb");
  c10::CachingAllocator::setAllocatorSettings("expandable_segments:False");
  apply_settings(segments);
  EXPECT_REFUSED(apply_settings(split), kOptionConflict, "/allocator", "max_split_size_mb 256",
                 "another memory policy of this run sets expandable_segments");
}

TEST_F(AllocatorConf, SetVariablesAreFound) {
  EXPECT_THAT(allocator_variables(), IsEmpty());
  setenv("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True", 1);
  ASSERT_EQ(allocator_variables().size(), 1);
  EXPECT_EQ(allocator_variables()[0].name, "PYTORCH_CUDA_ALLOC_CONF");
  EXPECT_EQ(allocator_variables()[0].value, "expandable_segments:True");
}

}  // namespace
}  // namespace stages
