#include "stages/worker/activation_folder.h"

#include <filesystem>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "tests/support/pictures.h"
#include "tests/support/refused.h"

namespace stages {
namespace {

namespace fs = std::filesystem;

class ActivationFolderTest : public testing::Test {
 protected:
  ActivationFolderTest() { transform_.image_size = 8; }

  std::string photo(const std::string& name, int width, int height) const {
    folder_.add(name, /*seed=*/1, width, height);
    return folder_ / name;
  }
  Image drawn(const std::string& name) const {
    return decode_image(file_bytes(folder_ / "maps" / name));
  }

  const DrawingFolder folder_;
  ImageDatasetOptions transform_;
};

TEST_F(ActivationFolderTest, PictureHasTheSizeOfTheImage) {
  ActivationFolder maps(folder_ / "maps", transform_);
  EXPECT_FALSE(fs::exists(folder_ / "maps"));
  const std::string file = photo("one.jpg", 60, 40);
  maps.write(file, 7, "a class", torch::zeros({2, 2}));
  maps.write(file, 7, "b", torch::ones({2, 2}));
  const Image zeros = drawn("one.7.a_class.png"), ones = drawn("one.7.b.png"),
              original = decode_image(file_bytes(file));
  ASSERT_EQ(zeros.width, 60);
  ASSERT_EQ(zeros.height, 40);
  const auto middle = static_cast<std::size_t>(3 * 30);
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_EQ(zeros.row(20)[middle + i], original.row(20)[middle + i]) << "there is no evidence";
  EXPECT_LT(ones.row(20)[middle + 1], original.row(20)[middle + 1]);
  EXPECT_EQ(maps.written(), 2);
  EXPECT_EQ(maps.remark(), "");
}

TEST_F(ActivationFolderTest, ReducedImagesAreReported) {
  ActivationFolder maps(folder_ / "maps", transform_);
  maps.write(photo("large.jpg", 4096, 16), 0, "a", torch::zeros({2, 2}));
  maps.write(photo("small.jpg", 16, 16), 1, "a", torch::zeros({2, 2}));
  EXPECT_EQ(drawn("large.0.a.png").width, 2048);
  EXPECT_EQ(drawn("large.0.a.png").height, 8);
  EXPECT_EQ(maps.remark(),
            "1 of 2 heat maps are drawn over images reduced to 2048 pixels on the longer "
            "side");
}

TEST_F(ActivationFolderTest, ImageThatDisappearedIsReported) {
  ActivationFolder maps(folder_ / "maps", transform_);
  EXPECT_REFUSED(maps.write(folder_ / "gone.jpg", 0, "a", torch::zeros({2, 2})), kMissingImage, "",
                 "gone.jpg", "do not change images");
}

}  // namespace
}  // namespace stages
