// End-to-end tests of `retort embed`.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/program.h"
#include "tests/support/shared_folder.h"

namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

/// Returns the values in a .npy file of float32, which follow its header.
std::vector<float> numbers_of(const std::string& npy) {
  const std::size_t header =
      10 + static_cast<unsigned char>(npy[8]) + 256 * static_cast<unsigned char>(npy[9]);
  std::vector<float> numbers((npy.size() - header) / sizeof(float));
  std::memcpy(numbers.data(), npy.data() + header, numbers.size() * sizeof(float));
  return numbers;
}

class Embedded : public testing::Test {
 protected:
  void SetUp() override {
    if (folder_.is_made()) return;
    const Ended made = retort(
        "data make image_folder --out photos --classes 3 --per-class 8 --size 32 --seed 5 -q",
        folder_.path());
    ASSERT_EQ(made.exit, 0) << made.err;
    const Ended ran =
        retort("run classify data.root=photos data.image_size=24 epochs=1 batch_size=8 run.dir=run",
               folder_.path());
    ASSERT_EQ(ran.exit, 0) << ran.err;
    fs::copy(folder_ / "photos/disc/00003.jpg", folder_ / "photos/copy_of_disc_3.jpg");
    folder_.keep();
  }
  Ended embed(const std::string& words) { return retort("embed " + words, folder_.path()); }

  SharedFolder folder_;
};

TEST_F(Embedded, WritesARowPerImageAndFindsDuplicates) {
  const Ended ended = embed("run photos --out all");
  ASSERT_EQ(ended.exit, 0) << ended.err;
  EXPECT_THAT(ended.out, AllOf(HasSubstr("25 images, 128 values each: all/embeddings.npy"),
                               HasSubstr("least similar to its neighbors: photos/")));
  const std::string npy = file_text(folder_ / "all/embeddings.npy");
  EXPECT_THAT(npy, AllOf(StartsWith(std::string("\x93NUMPY\x01\x00", 8)),
                         HasSubstr("'descr': '<f4', 'fortran_order': False, 'shape': (25, 128)")));
  EXPECT_EQ(numbers_of(npy).size(), 25u * 128);
  EXPECT_THAT(file_text(folder_ / "all/images.csv"),
              AllOf(StartsWith("row,file\n0,photos/"), HasSubstr("\n24,photos/")));
  EXPECT_THAT(file_text(folder_ / "all/duplicates.csv"),
              HasSubstr("photos/copy_of_disc_3.jpg,photos/disc/00003.jpg,"));
  const std::string outliers = file_text(folder_ / "all/outliers.csv");
  EXPECT_EQ(std::count(outliers.begin(), outliers.end(), '\n'), 26);
}

TEST_F(Embedded, RowsDoNotDependOnTheBatch) {
  ASSERT_EQ(embed("run photos --out whole --batch-size 64").exit, 0);
  ASSERT_EQ(embed("run photos/disc --out part").exit, 0);
  const auto whole = numbers_of(file_text(folder_ / "whole/embeddings.npy"));
  const auto part = numbers_of(file_text(folder_ / "part/embeddings.npy"));
  ASSERT_EQ(part.size(), 8u * 128);
  // The names are sorted: copy_of_disc_3.jpg comes before the folder disc.
  const std::string rows = file_text(folder_ / "whole/images.csv");
  const std::size_t at = rows.find(",photos/disc/00000.jpg");
  const std::size_t line = rows.rfind('\n', at) + 1;
  const auto first = static_cast<std::size_t>(std::stoi(rows.substr(line, at - line)));
  for (std::size_t i = 0; i < part.size(); ++i) {
    // With another number of rows, a matrix product may sum its terms in another order; each of the
    // network's dozens of products then rounds its 128 terms differently.
    constexpr float kReordered = 1000 * std::numeric_limits<float>::epsilon();
    EXPECT_NEAR(part[i], whole[first * 128 + i], kReordered * (1 + std::abs(part[i]))) << i;
  }
}

TEST_F(Embedded, NearestNeighborOfAQueryIsItsCopy) {
  const Ended ended =
      embed("run photos --out asked --query photos/disc/00003.jpg --neighbors 2 -q");
  ASSERT_EQ(ended.exit, 0) << ended.err;
  EXPECT_THAT(ended.out, AllOf(StartsWith("query,rank,file,similarity\n"
                                          "photos/disc/00003.jpg,1,photos/copy_of_disc_3.jpg,"),
                               HasSubstr("photos/disc/00003.jpg,2,photos/")));
  EXPECT_EQ(file_text(folder_ / "asked/neighbors.csv"), ended.out);
  const Ended json =
      embed("run photos --out asked_json --query photos/disc/00003.jpg --neighbors 2 --json");
  const auto result = nlohmann::json::parse(json.out)["result"];
  EXPECT_EQ(result["images"], 25);
  EXPECT_EQ(result["neighbors"][0]["nearest"][0]["file"], "photos/copy_of_disc_3.jpg");
}

TEST_F(Embedded, DamagedImageIsReportedOrSkipped) {
  fs::create_directories(folder_ / "damaged");
  fs::copy_file(folder_ / "photos/disc/00001.jpg", folder_ / "damaged/a.jpg",
                fs::copy_options::overwrite_existing);
  std::ofstream(folder_ / "damaged/b.jpg") << "no image";
  const Ended refused = embed("run damaged --out refused");
  EXPECT_EQ(refused.exit, 65) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("damaged/b.jpg"));
  EXPECT_FALSE(fs::exists(folder_ / "refused"));
  const Ended left_out = embed("run damaged --out left_out --skip-corrupt");
  EXPECT_EQ(left_out.exit, 65) << left_out.err;
  EXPECT_THAT(left_out.err, HasSubstr("damaged/b.jpg"));
  EXPECT_THAT(left_out.out, HasSubstr("1 image, 128 values"));
  EXPECT_EQ(file_text(folder_ / "left_out/images.csv"), "row,file\n0,damaged/a.jpg\n");
}

TEST_F(Embedded, InvalidArgumentsAreRejected) {
  const auto refusal = [&](const std::string& words) {
    const Ended ended = embed(words);
    EXPECT_NE(ended.exit, 0) << words;
    return ended.err;
  };
  EXPECT_THAT(refusal("run photos"), HasSubstr("choose a new folder: --out DIR"));
  EXPECT_THAT(refusal("run --out o"), HasSubstr("no image given"));
  EXPECT_THAT(refusal("photos/disc/00001.jpg --out o"), HasSubstr("no model given"));
  EXPECT_THAT(refusal("run photos --out photos"), HasSubstr("photos"));
  EXPECT_THAT(refusal("run photos --out o --similarity 1.5"), HasSubstr("from -1 to 1"));
  EXPECT_THAT(refusal("run photos --out o lr=1"), HasSubstr("has no effect on embeddings"));
  EXPECT_THAT(refusal("run photos --out o --query absent.jpg"), HasSubstr("absent.jpg"));
  EXPECT_FALSE(fs::exists(folder_ / "o"));
}

}  // namespace
