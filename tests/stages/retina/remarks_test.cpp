#include "stages/data/image_dataset.h"

#include <filesystem>

#include <gmock/gmock.h>

#include "stages/artifact/dataset.h"
#include "stages/artifact/loader.h"
#include "stages/retina/retina.h"
#include "stages/retina/train_binary.h"
#include "stages/stages.h"
#include "stages/train/balanced_samples.h"
#include "tests/support/image_stage_fixture.h"

namespace stages {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

class RetinaRemarks : public ImageStageTest {
 protected:
  RetinaRemarks() : ImageStageTest(kDataFundus) {
    make_fundus_folders(data(), {.classes = 5, .per_class = 10, .size = 64});
    // Replaces two training images, of the grades 1 and 3, and one validation image.
    std::uint64_t seed = 0;
    for (const char* name : {"train/1", "train/3", "val/3"}) {
      const auto file = *fs::directory_iterator(data() / name);
      files_.push_back(name + ("/" + file.path().filename().string()));
      write_bytes(file.path(), encode_png(64, 48, picture(64, 48, ++seed).pixels.data()));
    }
  }
  /// Reads a part like an epoch does.
  static void read(const std::shared_ptr<const Dataset>& dataset) {
    Loader loader(dataset, dataset->epoch_order(/*seed=*/1, /*epoch=*/0), /*batch_size=*/4,
                  /*epoch=*/0);
    while (loader.next()) {
    }
  }
  std::shared_ptr<const Dataset> opened(const std::string& name, std::int64_t workers = 0) {
    outputs_ = run({{"image_size", 16}, {"loader", {{"workers", workers}, {"pinned", false}}}});
    context_.said.clear();
    return part(outputs_, name);
  }
  std::vector<std::string> files_;
  runner::Outputs outputs_;
};

TEST_F(RetinaRemarks, UnusualImagesAreReportedOnceAndCounted) {
  for (const std::int64_t workers : {0, 3}) {
    const auto train = opened("train", workers);
    context_.metrics.clear();
    report_remarks({train.get()}, 0, context_);
    EXPECT_THAT(context_.said, IsEmpty());  // nothing has been read
    read(train);
    report_remarks({train.get(), nullptr}, 9, context_);
    EXPECT_THAT(context_.said,
                ElementsAre("warning: 2 images do not look like a photograph of a retina: '" +
                            files_[0] + "', '" + files_[1] + "'"));
    EXPECT_THAT(context_.values("data/strangers"), ElementsAre(2));
    report_remarks({train.get()}, 18, context_);
    EXPECT_EQ(context_.said.size(), 1u);
    EXPECT_THAT(context_.values("data/strangers"), ElementsAre(2, 2));
  }
}

TEST_F(RetinaRemarks, ClassPairReportsItsOwnImages) {
  const auto train = opened("train"), validation = part(outputs_, "validation");
  const auto pair = std::make_shared<ClassPair>(train, std::array<std::int64_t, 2>{2, 3});
  const auto balanced = std::make_shared<BalancedSamples>(pair);
  const auto validated = std::make_shared<ClassPair>(validation, std::array<std::int64_t, 2>{2, 3});
  read(balanced);
  read(validated);
  report_remarks({balanced.get(), validated.get()}, 5, context_);
  EXPECT_THAT(context_.said,
              ElementsAre("warning: 2 images do not look like a photograph of a retina: '" +
                          files_[1] + "', '" + files_[2] + "'"));
  EXPECT_THAT(context_.values("data/strangers"), ElementsAre(2));
  const auto other = std::make_shared<ClassPair>(train, std::array<std::int64_t, 2>{1, 3});
  read(other);
  report_remarks({other.get()}, 5, context_);
  EXPECT_EQ(context_.said.back(),
            "warning: 1 image does not look like a photograph of a retina: '" + files_[0] + "'");
  EXPECT_THAT(context_.values("data/strangers"), ElementsAre(2, 2));
}

TEST_F(RetinaRemarks, SmokeRunReportsNothing) {
  const auto train = opened("train");
  read(train);
  context_.facts.smoke = true;
  report_remarks({train.get()}, 2, context_);
  EXPECT_THAT(context_.said, IsEmpty());
  EXPECT_THAT(context_.values("data/strangers"), IsEmpty());
}

}  // namespace
}  // namespace stages
