#include "stages/contrastive/data_stanford_cars.h"

#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stages/data/mat_file.h"
#include "tests/support/image_lists.h"
#include "tests/support/pictures.h"
#include "tests/support/refused.h"
#include "tests/support/shared_data.h"

namespace stages {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

struct Car {
  std::int64_t number;
  std::string file;
  std::array<std::int64_t, 4> box = {1, 1, 4, 3};
};

class StanfordCarsList : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) const {
    write_bytes(folder_ / (inner_ + name), {text.begin(), text.end()});
  }
  void write_names(const std::vector<std::string>& names) const {
    write("devkit/cars_meta.mat", mat_texts_file("class_names", names));
  }
  /// The order of the fields differs from the published one.
  void write_cars(const std::string& file, const std::vector<Car>& cars,
                  bool with_class = true) const {
    MatRecords records{.fields = {"fname", "bbox_y2", "bbox_x2", "bbox_y1", "bbox_x1"}, .rows = {}};
    if (with_class) records.fields.emplace_back("class");
    for (const Car& car : cars) {
      auto& row = records.rows.emplace_back(
          std::vector<MatCell>{car.file, car.box[3], car.box[2], car.box[1], car.box[0]});
      if (with_class) row.emplace_back(car.number);
    }
    write(file, mat_records_file("annotations", records));
  }
  void write_images() const {
    for (const char* const image : {"1.jpg", "2.jpg", "3.jpg"})
      write(nested("cars_train") + image, "");
    for (const char* const image : {"1.jpg", "2.jpg"}) write(nested("cars_test") + image, "");
  }
  std::string nested(const std::string& name) const {
    return is_nested_ ? name + "/" + name + "/" : name + "/";
  }
  void write_set() const {
    write_names({"AM General Hummer SUV 2000", "Audi TT Hatchback 2011", "Audi TT RS Coupe 2012"});
    write_cars("devkit/cars_train_annos.mat",
               {{3, "1.jpg"}, {1, "2.jpg"}, {2, "3.jpg", {39, 116, 569, 375}}});
    write_cars("devkit/cars_test_annos.mat", {{0, "1.jpg"}, {0, "2.jpg"}}, /*with_class=*/false);
    write_cars(test_file_, {{2, "1.jpg"}, {1, "2.jpg"}});
    write_images();
  }
  ImageList list(CarLabels labels = CarLabels::kModel, bool boxes = false) const {
    auto list = list_stanford_cars(folder_.path(), labels, boxes, false);
    EXPECT_TRUE(list) << (list ? "" : list.errors().front().message);
    return list ? *std::move(list) : ImageList{};
  }
  runner::Diagnostics errors(bool boxes = false) const {
    return refusals_of(
        [&] { return list_stanford_cars(folder_.path(), CarLabels::kModel, boxes, false); });
  }

  DrawingFolder folder_;
  std::string inner_, test_file_ = "cars_test_annos_withlabels.mat";
  bool is_nested_ = false;
};

TEST_F(StanfordCarsList, ReadsAnnotationsByFieldName) {
  for (const char* const inner : {"", "stanford_cars/"}) {
    inner_ = inner;
    write_set();
    const ImageList found = list();
    EXPECT_EQ(found.root, inner_.empty() ? folder_.path() : folder_ / "stanford_cars");
    EXPECT_THAT(found.classes, ElementsAre("AM General Hummer SUV 2000", "Audi TT Hatchback 2011",
                                           "Audi TT RS Coupe 2012"));
    EXPECT_THAT(labeled_names(found[Part::kTrain]),
                ElementsAre("2 cars_train/1.jpg", "0 cars_train/2.jpg", "1 cars_train/3.jpg"));
    EXPECT_THAT(labeled_names(found[Part::kTest]),
                ElementsAre("1 cars_test/1.jpg", "0 cars_test/2.jpg"));
    EXPECT_FALSE(found.no_test);
    fs::remove_all(folder_ / "devkit");
  }
}

TEST_F(StanfordCarsList, ImagesMayBeOneFolderDeeper) {
  is_nested_ = true;
  write_set();
  EXPECT_EQ(list()[Part::kTrain][0].name, "cars_train/cars_train/1.jpg");
  EXPECT_EQ(list()[Part::kTest][0].name, "cars_test/cars_test/1.jpg");
}

TEST_F(StanfordCarsList, TestLabelsMayBeInTheDevkit) {
  test_file_ = "devkit/cars_test_annos_withlabels.mat";
  write_set();
  EXPECT_EQ(list()[Part::kTest].size(), 2u);
  EXPECT_FALSE(list().no_test);
}

TEST_F(StanfordCarsList, KaggleLayoutIsAccepted) {
  is_nested_ = true;
  test_file_ = "cars_test_annos_withlabels (1).mat";
  write_set();
  const ImageList as_published = list();
  fs::create_directories(folder_ / (inner_ + "car_devkit"));
  fs::rename(folder_ / (inner_ + "devkit"), folder_ / (inner_ + "car_devkit/devkit"));
  const ImageList kaggle = list();
  for (const Part part : {Part::kTrain, Part::kTest}) {
    EXPECT_FALSE(kaggle[part].empty());
    EXPECT_EQ(kaggle[part].size(), as_published[part].size());
  }
}

TEST_F(StanfordCarsList, MissingTestLabelsLeaveTheRestAndAreExplained) {
  write_set();
  fs::remove(folder_ / test_file_);
  const ImageList found = list();
  EXPECT_EQ(found[Part::kTrain].size(), 3u);
  EXPECT_TRUE(found[Part::kTest].empty());
  ASSERT_TRUE(found.no_test);
  EXPECT_REFUSED(runner::Diagnostics{*found.no_test}, kMissingAnnotations, "",
                 "cars_test_annos_withlabels.mat", "devkit; cars_test_annos.mat");
  EXPECT_THAT(found.no_test->help,
              testing::HasSubstr(
                  "or test on the validation images: evaluate.inputs: {test: data.validation}"));
}

TEST_F(StanfordCarsList, MakerIsTheFirstOneOrTwoWords) {
  write_set();
  const ImageList found = list(CarLabels::kMake);
  EXPECT_THAT(found.classes, ElementsAre("AM General", "Audi"));
  EXPECT_THAT(labeled_names(found[Part::kTrain]),
              ElementsAre("1 cars_train/1.jpg", "0 cars_train/2.jpg", "1 cars_train/3.jpg"));
}

TEST_F(StanfordCarsList, CaptionsCanUseNameMakerModelAndYear) {
  write_set();
  for (const CarLabels labels : {CarLabels::kModel, CarLabels::kMake}) {
    const ImageList found = list(labels);
    EXPECT_THAT(found.facts.fields, ElementsAre("name", "make", "model", "year"));
    const ImageFile& first = found[Part::kTrain][0];
    EXPECT_THAT(found.facts.rows.at(static_cast<std::size_t>(first.facts)),
                ElementsAre("Audi TT RS Coupe 2012", "Audi", "TT RS Coupe", "2012"));
  }
}

TEST_F(StanfordCarsList, BoxesCountFromOneAndIncludeTheirLastPixel) {
  write_set();
  EXPECT_EQ(list(CarLabels::kModel, true)[Part::kTrain][2].box, (Box{38, 115, 531, 260}));
  EXPECT_EQ(list()[Part::kTrain][2].box, std::nullopt);
}

TEST(CarName, IsMakerModelAndYear) {
  const auto parts = [](const char* name) {
    const auto car = car_name(name);
    return car ? car->make + "|" + car->model + "|" + car->year : "none";
  };
  EXPECT_EQ(parts("AM General Hummer SUV 2000"), "AM General|Hummer SUV|2000");
  EXPECT_EQ(parts("Aston Martin V8 Vantage Coupe 2012"), "Aston Martin|V8 Vantage Coupe|2012");
  EXPECT_EQ(parts("Land Rover LR2 SUV 2012"), "Land Rover|LR2 SUV|2012");
  EXPECT_EQ(parts("Ram C/V Cargo Van Minivan 2012"), "Ram|C/V Cargo Van Minivan|2012");
  EXPECT_EQ(parts("Land Rover 2012"), "Land|Rover|2012");
  for (const char* const name :
       {"", "2012", "Audi 2012", "Audi TT", "Audi TT 12", "Audi TT 2012 ", " TT 2012"})
    EXPECT_EQ(parts(name), "none") << name;
}

TEST_F(StanfordCarsList, EmptyFolderIsRejected) {
  EXPECT_REFUSED(errors(), kMissingFolder, "", "devkit", "stanford_cars");
  write("cars_annos.mat", "");
  EXPECT_REFUSED(errors(), kMissingFolder, "", "cars_annos.mat");
}

TEST_F(StanfordCarsList, MissingDevkitFilesAreReported) {
  write("devkit/README.txt", "");
  EXPECT_ALL_REFUSED(errors(), {kMissingAnnotations, "", {"devkit/cars_meta.mat"}},
                     {kMissingAnnotations, "", {"devkit/cars_train_annos.mat"}});
}

TEST_F(StanfordCarsList, FileFromAnotherDevkitIsReported) {
  write_set();
  write("devkit/cars_meta.mat", mat_texts_file("classes", std::vector<std::string>{"a"}));
  write("devkit/cars_train_annos.mat",
        mat_records_file("annotations",
                         {.fields = {"relative_im_path", "class", "test"}, .rows = {}}));
  EXPECT_ALL_REFUSED(
      errors(), {kBadAnnotations, "", {"cars_meta.mat", "'class_names'"}},
      {kBadAnnotations,
       "",
       {"cars_train_annos.mat", "lack 'fname'", "'relative_im_path', 'class', 'test'"}});
}

TEST_F(StanfordCarsList, TestFileWithoutClassesIsRejected) {
  write_set();
  fs::copy_file(folder_ / "devkit/cars_test_annos.mat", folder_ / test_file_,
                fs::copy_options::overwrite_existing);
  EXPECT_REFUSED(errors(), kBadAnnotations, "", "cars_test_annos_withlabels.mat", "lack 'class'");
}

TEST_F(StanfordCarsList, ErrorsInRecordsAreReported) {
  write_set();
  write_cars("devkit/cars_train_annos.mat", {{0, "1.jpg"},
                                             {4, "2.jpg"},
                                             {1, "../3.jpg"},
                                             {1, "notes.txt"},
                                             {1, "3.jpg", {5, 1, 4, 3}},
                                             {2, "3.jpg", {1, 4, 4, 3}},
                                             {2, "3.jpg"}});
  EXPECT_ALL_REFUSED(
      errors(/*boxes=*/true), {kBadAnnotations, "", {"'1.jpg'", "class 0", "1 to 3"}},
      {kBadAnnotations, "", {"'2.jpg'", "class 4"}}, {kBadAnnotations, "", {"image 3", "fname"}},
      {kBadAnnotations, "", {"image 4", "fname"}}, {kBadAnnotations, "", {"image 5", "box"}},
      {kBadAnnotations, "", {"image 6, '3.jpg'", "twice"}},
      {kBadAnnotations, "", {"image 6", "box"}}, {kBadAnnotations, "", {"image 7", "twice"}});
}

TEST_F(StanfordCarsList, ErrorsInNamesAreReported) {
  write_set();
  write_names({"Audi TT 2012", "Audi TT", "Audi TT 2012"});
  EXPECT_ALL_REFUSED(errors(), {kBadAnnotations, "", {"class 2, 'Audi TT'"}},
                     {kBadAnnotations, "", {"class 3, 'Audi TT 2012'"}});
}

TEST_F(StanfordCarsList, MissingTrainingImagesAreRejected) {
  write_set();
  write_cars("devkit/cars_train_annos.mat", {});
  EXPECT_REFUSED(errors(), kBadAnnotations, "", "devkit/cars_train_annos.mat");
}

TEST_F(StanfordCarsList, UpToTenMissingImagesAreListed) {
  write_set();
  std::vector<Car> cars;
  for (int i = 0; i < 12; ++i) cars.push_back({1, "a" + std::to_string(10 + i) + ".jpg"});
  write_cars("devkit/cars_train_annos.mat", cars);
  EXPECT_REFUSED(errors(), kMissingImage, "", "12 of 14 images", "'cars_train/a10.jpg'",
                 "'cars_train/a19.jpg' and 2 more", "cars_train.tgz and cars_test.tgz");
}

/// The published annotations without images.
class PublishedCars : public testing::Test {
 protected:
  void SetUp() override {
    devkit_ = shared_data("data/stanford_cars/devkit");
    if (devkit_.empty()) return;
    fs::copy(devkit_, folder_ / "devkit", fs::copy_options::recursive);
  }
  fs::path devkit_;
  DrawingFolder folder_;
};

TEST_F(PublishedCars, ImagesMustExist) {
  RETORT_NEEDS_SHARED(devkit_);
  EXPECT_REFUSED(list_stanford_cars(folder_.path(), CarLabels::kModel, /*boxes=*/true, false),
                 kMissingImage, "", "8144 of 8144 images", "'cars_train/00001.jpg', ");
}

TEST_F(PublishedCars, HaveThePublishedCounts) {
  RETORT_NEEDS_SHARED(devkit_);
  // The test annotations are published without classes, so the test adds some.
  MatRecords test = read_mat_records(folder_.read("devkit/cars_test_annos.mat"), "annotations");
  test.fields.emplace_back("class");
  for (std::size_t i = 0; i < test.rows.size(); ++i)
    test.rows[i].emplace_back(static_cast<std::int64_t>(i % 196 + 1));
  folder_.write("cars_test_annos_withlabels.mat", mat_records_file("annotations", test));
  fs::create_directory(folder_ / "cars_train");
  for (const auto& record :
       read_mat_records(folder_.read("devkit/cars_train_annos.mat"), "annotations").rows)
    std::ofstream{folder_ / ("cars_train/" + std::get<std::string>(record.back()))};
  fs::create_directory_symlink("cars_train",
                               folder_ / "cars_test");  // its file names have the same form
  for (const CarLabels labels : {CarLabels::kModel, CarLabels::kMake}) {
    const auto found = list_stanford_cars(folder_.path(), labels, /*boxes=*/true, false);
    ASSERT_TRUE(found) << found.errors().front().message;
    EXPECT_EQ((*found)[Part::kTrain].size(), 8144u);
    EXPECT_EQ((*found)[Part::kTest].size(), 8041u);
    EXPECT_EQ(found->classes.size(), labels == CarLabels::kModel ? 196u : 49u);
    std::map<std::int64_t, int> counts;
    for (const ImageFile& file : (*found)[Part::kTrain]) ++counts[file.facts];
    int fewest = 8144, most = 0;
    for (const auto& [row, count] : counts) {
      fewest = std::min(fewest, count);
      most = std::max(most, count);
    }
    EXPECT_EQ(fewest, 24);
    EXPECT_EQ(most, 68);
    EXPECT_EQ((*found)[Part::kTrain][0].box, (Box{38, 115, 531, 260}));
    const CaptionTemplate caption("a photo of a {make} {model} car");
    EXPECT_EQ(compose_captions({&caption, 1}, found->facts).texts.front(),
              "a photo of a AM General Hummer SUV car");
  }
}

}  // namespace
}  // namespace stages
