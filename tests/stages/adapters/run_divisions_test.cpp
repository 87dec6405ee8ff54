#include "stages/adapters/run_divisions.h"

#include <gmock/gmock.h>

#include "runner/shared/stage/run_layout.h"
#include "stages/artifact/division.h"
#include "tests/support/refused.h"
#include "tests/support/temporary_folder.h"

namespace stages {
namespace {

class RunDivisions : public testing::Test {
 protected:
  void divide(const std::string& run, const std::string& root, const std::string& train,
              const std::string& validation) const {
    Division division;
    division.root = root;
    division.drawn_by = "seed of " + run;
    division.parts["train"] = {{train, 1}};
    division.parts["validation"] = {{validation, 1}};
    folder_.write(run + "/data/division.gz", to_gzip(division));
  }
  void compare() const { check_divided_alike(folder_.path() / "own", folder_.path() / "earlier"); }
  TemporaryFolder folder_;
};

TEST_F(RunDivisions, EqualSplitsAreAccepted) {
  divide("own", "/data", "a.jpg", "b.jpg");
  divide("earlier", "/data", "a.jpg", "b.jpg");
  EXPECT_NO_THROW(compare());
}

TEST_F(RunDivisions, ValidationImagesUsedForTrainingAreRejected) {
  divide("own", "/data", "a.jpg", "b.jpg");
  divide("earlier", "/data", "b.jpg", "a.jpg");
  EXPECT_REFUSED(compare(), kOptionConflict, "", "1 of the 1 images", "validation", "seed of own",
                 "seed of earlier");
}

TEST_F(RunDivisions, OtherRootsAndMissingRecordsAreNotCompared) {
  divide("own", "/data", "a.jpg", "b.jpg");
  EXPECT_NO_THROW(compare());
  divide("earlier", "/elsewhere", "b.jpg", "a.jpg");
  EXPECT_NO_THROW(compare());
}

}  // namespace
}  // namespace stages
