#include "stages/evaluate/example_images.h"

#include <cmath>

#include <gmock/gmock.h>
#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "runner/shared/stage/stage.h"
#include "tests/support/shown_dataset.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tiny_dataset.h"

namespace stages {
namespace {

using testing::ElementsAre;

class ExampleImagesTest : public testing::Test {
 protected:
  ExampleImagesTest() {
    samples_.names = {"0", "1", "2", "3", "4", "5"};
    // Sorted by increasing confidence in class 1; samples 1, 3 and 5 are of class 0, so they are
    // wrong.
    samples_.logits =
        torch::tensor({{0.0, 1.0}, {0.0, 2.0}, {0.0, 3.0}, {0.0, 4.0}, {0.0, 5.0}, {0.0, 6.0}});
    samples_.labels = torch::tensor({1, 0, 1, 0, 1, 0}, at::kLong);
  }

  /// Returns the group and the sample of each example.
  std::vector<std::string> examples(std::int64_t count) const {
    write_example_images(samples_, {"a", "b"}, dataset_, count, folder_.path());
    const auto json = nlohmann::json::parse(folder_.read("examples/examples.json"));
    std::vector<std::string> all;
    for (const auto& one : json) {
      const std::string bytes = folder_.read("examples/" + one["file"].get<std::string>()),
                        name = one["name"];
      EXPECT_EQ(bytes, std::string("\xFF\xD8") + static_cast<char>(name[0] - '0'));
      all.push_back(one["group"].get<std::string>().substr(0, 19) + " " + name);
    }
    return all;
  }

  TemporaryFolder folder_;
  ShownDataset dataset_;
  ClassifiedSamples samples_;
};

TEST_F(ExampleImagesTest, AreTheMostAndLeastConfident) {
  EXPECT_THAT(examples(2),
              ElementsAre("most confident wron 5", "most confident corr 4", "most confident corr 2",
                          "least confident cor 0", "least confident cor 2"))
      << "3 is unreadable";
}

TEST_F(ExampleImagesTest, ShowThePrediction) {
  examples(1);
  const auto first = nlohmann::json::parse(folder_.read("examples/examples.json"))[0];
  EXPECT_EQ(first["label"], "a");
  EXPECT_EQ(first["predicted"], "b");
  EXPECT_NEAR(first["probability"].get<double>(), 1 / (1 + std::exp(-6.0)), 1e-7);
}

TEST_F(ExampleImagesTest, UseTheDecisionOfTheEvaluation) {
  samples_.predicted = {1, 0, 1, 0, 1, 0};
  EXPECT_EQ(examples(1)[0].substr(0, 19), "most confident corr") << "nothing is wrong";
}

TEST_F(ExampleImagesTest, AdditionalFactsDescribeTheSameRow) {
  write_example_images(samples_, {"a", "b"}, dataset_, 1, folder_.path(), [](std::size_t row) {
    return nlohmann::ordered_json{{"row", row}};
  });
  for (const auto& one : written_examples(folder_.path()))
    EXPECT_EQ(one["name"], std::to_string(one["row"].get<int>()));
}

TEST(Extremes, AreTheLargestAndTheSmallestRows) {
  const std::vector<double> values = {2, 5, 1, 5, 3, 1, 4};
  EXPECT_THAT(extremes(values, 2).largest, ElementsAre(1, 3)) << "equal rows keep their order";
  EXPECT_THAT(extremes(values, 2).smallest, ElementsAre(2, 5));
  EXPECT_THAT(extremes(values, 4).largest, ElementsAre(1, 3, 6, 4));
  EXPECT_THAT(extremes(values, 4).smallest, ElementsAre(2, 5, 0)) << "no row is in both lists";
}

TEST_F(ExampleImagesTest, AreNotWrittenIfDisabledOrWithoutImages) {
  write_example_images(samples_, {"a", "b"}, dataset_, 0, folder_.path());
  const TinyDataset numbers(6);
  write_example_images(samples_, {"a", "b"}, numbers, 2, folder_.path());
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "examples"));
}

}  // namespace
}  // namespace stages
