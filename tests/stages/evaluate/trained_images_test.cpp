#include "stages/evaluate/trained_images.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runner/shared/stage/run_layout.h"
#include "runner/shared/stage/stage.h"
#include "stages/artifact/dataset.h"
#include "stages/artifact/division.h"
#include "tests/support/fetching.h"
#include "tests/support/pictures.h"
#include "tests/support/recording_context.h"
#include "tests/support/refused.h"

namespace stages {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// Files that are never read.
class NamedFiles final : public Dataset, public FilesOnDisk {
 public:
  NamedFiles(std::filesystem::path root, std::vector<std::string> names)
      : root_(std::move(root)), names_(std::move(names)) {}
  DatasetDescription describe() const override {
    return {.size = std::ssize(names_), .tensors = {}, .classes = {}};
  }
  std::optional<NamedTensors> sample(std::int64_t, std::int64_t) const override { return {}; }
  std::string sample_name(std::int64_t index) const override {
    return names_[static_cast<std::size_t>(index)];
  }
  std::filesystem::path root() const override { return root_; }
  LoaderOptions loader() const override { return {}; }

 private:
  std::filesystem::path root_;
  std::vector<std::string> names_;
};

class TrainedImagesTest : public testing::Test {
 protected:
  /// A run that was trained on 0 to 5, validated with 6 and 7, and kept 8 and 9 for the test.
  TrainedImagesTest() {
    Division division{
        .root = division_root(root_.path()), .drawn_by = "", .classes = {}, .parts = {}};
    for (int i = 0; i < 10; ++i) {
      const std::string name = std::to_string(i) + ".jpg";
      root_.add(name, static_cast<std::uint64_t>(i));
      division.parts[i < 6   ? "train"
                     : i < 8 ? "validation"
                             : "test"]
          .push_back({name, std::filesystem::file_size(root_ / name)});
    }
    const std::string bytes = to_gzip(division);
    write_bytes(runner::NodeLayout(run_.path()).division(), {bytes.begin(), bytes.end()});
    context_.facts.trained_data = {{run_.path(), {"train", "validation"}, /*is_earlier=*/true}};
  }

  runner::Diagnostics refusal(const std::filesystem::path& root,
                              const std::vector<std::string>& names) {
    return refusals_of(
        [&] { check_trained_images(NamedFiles(root, names), /*allowed=*/false, context_); });
  }

  DrawingFolder root_, run_;
  RecordingContext context_;
};

TEST_F(TrainedImagesTest, TestPartOfTheRunIsNotCounted) {
  EXPECT_THAT(refusal(root_.path(), {"8.jpg", "9.jpg", "new.jpg"}), testing::IsEmpty());
  EXPECT_THAT(context_.said, ElementsAre("the model was trained on none of the 3 test images"));
}

TEST_F(TrainedImagesTest, TrainingAndValidationImagesAreCountedAndRejected) {
  EXPECT_REFUSED(refusal(root_.path(), {"5.jpg", "6.jpg", "9.jpg"}), kBadAnnotations,
                 "/allow_trained", "2 of the 3 ", "'5.jpg', '6.jpg'");
  check_trained_images(NamedFiles(root_.path(), {"5.jpg", "9.jpg"}), /*allowed=*/true, context_);
  EXPECT_THAT(context_.said, ElementsAre("the model was trained on 1 of the 2 test images, or was "
                                         "selected by its results on them: '5.jpg'"));
}

TEST_F(TrainedImagesTest, LongListsAreShortened) {
  EXPECT_REFUSED(
      refusal(root_.path(), {"0.jpg", "1.jpg", "2.jpg", "3.jpg", "4.jpg", "5.jpg", "6.jpg"}),
      kBadAnnotations, "/allow_trained", "7 of the 7 ", "and others");
}

TEST_F(TrainedImagesTest, LinkToTheFolderIsRecognized) {
  const TemporaryFolder elsewhere;
  std::filesystem::create_directory_symlink(root_.path(), elsewhere / "link");
  EXPECT_REFUSED(refusal(elsewhere / "link", {"0.jpg"}), kBadAnnotations, "/allow_trained",
                 "1 of the 1");
}

TEST_F(TrainedImagesTest, CopyIsRecognizedByNameAndSizeEvenIfTheFolderIsGone) {
  const DrawingFolder copy;
  std::filesystem::copy(root_.path(), copy.path(), std::filesystem::copy_options::recursive);
  copy.add("1.jpg", 99, 31, 17);  // a different image with that name
  std::filesystem::remove_all(root_.path());
  EXPECT_REFUSED(refusal(copy.path(), {"0.jpg", "1.jpg"}), kBadAnnotations, "/allow_trained",
                 "1 of the 2", "'0.jpg'");
}

TEST_F(TrainedImagesTest, DifferentImageWithTheSameNameAndSizeIsNotRecognized) {
  const DrawingFolder other;
  std::vector<std::uint8_t> bytes = file_bytes(root_ / "1.jpg");
  bytes[bytes.size() / 2] ^= 1;
  write_bytes(other / "1.jpg", bytes);
  EXPECT_THAT(refusal(other.path(), {"1.jpg"}), testing::IsEmpty());
}

TEST_F(TrainedImagesTest, FewMatchingNamesAndSizesDoNotIndicateAMovedFolder) {
  const DrawingFolder other;
  for (int i = 0; i < 5; ++i) other.add(std::to_string(i) + ".jpg", 99, 31 + i, 17);
  fs::copy_file(root_ / "5.jpg", other / "5.jpg");
  fs::remove_all(root_.path());
  EXPECT_THAT(refusal(other.path(), {"0.jpg", "1.jpg", "2.jpg", "3.jpg", "4.jpg", "5.jpg"}),
              testing::IsEmpty());
}

TEST_F(TrainedImagesTest, RenamedImageIsRecognizedByItsBytes) {
  const DrawingFolder copy;
  std::filesystem::copy_file(root_ / "0.jpg", copy / "renamed.jpg");
  std::vector<std::uint8_t> bytes = file_bytes(root_ / "1.jpg");
  bytes[bytes.size() / 2] ^= 1;
  write_bytes(copy / "other.jpg", bytes);
  EXPECT_REFUSED(refusal(copy.path(), {"renamed.jpg", "other.jpg"}), kBadAnnotations,
                 "/allow_trained", "1 of the 2");
}

TEST_F(TrainedImagesTest, TrainingFolderIsRecognizedBeforeTheSplit) {
  context_.facts.trained_data = {{{}, {"train"}, /*is_earlier=*/false}};
  EXPECT_REFUSED(refusal(root_.path(), {"0.jpg", "new.jpg"}), kBadAnnotations, "/allow_trained",
                 "2 of the 2");
}

TEST_F(TrainedImagesTest, RunWithoutARecordedSplitIsReported) {
  context_.facts.trained_data = {{"no/run/nodes/data", {"train"}, /*is_earlier=*/true}};
  EXPECT_THAT(refusal(root_.path(), {"0.jpg"}), testing::IsEmpty());
  EXPECT_THAT(context_.said, ElementsAre(HasSubstr("not recorded in 'no/run/nodes/data'")));
}

TEST_F(TrainedImagesTest, NothingIsCheckedWithoutTrainedData) {
  context_.facts.trained_data.clear();
  EXPECT_THAT(refusal(root_.path(), {"0.jpg"}), testing::IsEmpty());
  EXPECT_THAT(context_.said, IsEmpty());
}

}  // namespace
}  // namespace stages
