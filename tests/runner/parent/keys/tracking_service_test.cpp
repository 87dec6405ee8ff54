#include "runner/parent/keys/tracking_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace runner {
namespace {

using testing::HasSubstr;

TEST(TrackingService, KeysOfOtherProgramsSuggestRetortsKeys) {
  for (const char* key : {"wandb", "use_wandb", "trackio", "report_to", "tensorboard"})
    EXPECT_THAT(instead_of_tracking_service(key), HasSubstr("run.tensorboard=true")) << key;
  EXPECT_THAT(instead_of_tracking_service("wandb"), HasSubstr("`wandb sync"));
  EXPECT_THAT(instead_of_tracking_service("mlflow"), HasSubstr("run.mlflow=true"));
}

TEST(TrackingService, OtherKeysGetNoSuggestion) {
  for (const char* key : {"", "wand", "train", "reports"})
    EXPECT_EQ(instead_of_tracking_service(key), "");
}

}  // namespace
}  // namespace runner
