#include <matio.h>

#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stages/data/mat_file.h"
#include "tests/support/pictures.h"
#include "tests/support/program.h"
#include "tests/support/shared_data.h"

namespace stages {
namespace {

using testing::ElementsAre;

MatRecords two_cars() {
  return {.fields = {"class", "fname", "score"},
          .rows = {{std::int64_t{196}, "00001.jpg", MatCell()},
                   {std::int64_t{300}, "é.jpg", std::int64_t{0}}}};
}

std::string cars_file() { return mat_records_file("annotations", two_cars()); }

std::string names_file() {
  return mat_texts_file("class_names", std::vector<std::string>{"Audi TT", "", "BMW Série 3"});
}

template <typename Read>
std::string cause(const std::string& file, const std::string& name, Read read) {
  try {
    read(file, name);
    return "";
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
}

std::string records_problem(const std::string& file, const std::string& name = "annotations") {
  return cause(file, name, read_mat_records);
}

std::string texts_problem(const std::string& file, const std::string& name = "class_names") {
  return cause(file, name, read_mat_texts);
}

/// Returns what another library reads from a file with one variable, which `fill` writes.
template <typename Fill>
std::string records_by_matio(matio_compression compression, Fill fill) {
  const TemporaryFolder folder;
  const std::string path = folder / "a.mat";
  mat_t* file = Mat_CreateVer(path.c_str(), nullptr, MAT_FT_MAT5);
  matvar_t* variable = fill();
  EXPECT_EQ(Mat_VarWrite(file, variable, compression), 0);
  Mat_VarFree(variable);
  Mat_Close(file);
  return file_text(path);
}

matvar_t* matio_text(const char* text, matio_types type = MAT_T_UTF8) {
  std::size_t size[2] = {1, std::string(text).size()};
  return Mat_VarCreate(nullptr, MAT_C_CHAR, type, 2, size, const_cast<char*>(text), 0);
}

matvar_t* matio_number(double number, int flags = 0) {
  std::size_t size[2] = {1, 1};
  return Mat_VarCreate(nullptr, MAT_C_DOUBLE, MAT_T_DOUBLE, 2, size, &number, flags);
}

TEST(MatRecords, ReadsFilesFromAnotherLibrary) {
  for (const auto compression : {MAT_COMPRESSION_NONE, MAT_COMPRESSION_ZLIB}) {
    const std::string file = records_by_matio(compression, [] {
      const char* fields[] = {"fname", "class", "share"};
      std::size_t size[2] = {1, 2};
      matvar_t* cars = Mat_VarCreateStruct("annotations", 2, size, fields, 3);
      for (std::size_t i = 0; i < 2; ++i) {
        Mat_VarSetStructFieldByName(cars, "fname", i, matio_text(i == 0 ? "00001.jpg" : "2.jpg"));
        Mat_VarSetStructFieldByName(cars, "class", i, matio_number(i == 0 ? 7 : 196));
        Mat_VarSetStructFieldByName(cars, "share", i, matio_number(0.5));
      }
      return cars;
    });
    const MatRecords records = read_mat_records(file, "annotations");
    EXPECT_THAT(records.fields, ElementsAre("fname", "class", "share"));
    EXPECT_THAT(records.rows, ElementsAre(ElementsAre("00001.jpg", std::int64_t{7}, MatCell()),
                                          ElementsAre("2.jpg", std::int64_t{196}, MatCell())));
  }
}

TEST(MatRecords, ReadsStringsFromAnotherLibrary) {
  for (const auto compression : {MAT_COMPRESSION_NONE, MAT_COMPRESSION_ZLIB}) {
    const std::string file = records_by_matio(compression, [] {
      matvar_t* cells[] = {matio_text("Audi TT"), matio_text("Ram C/V Cargo Van Minivan 2012")};
      std::size_t size[2] = {1, 2};
      return Mat_VarCreate("class_names", MAT_C_CELL, MAT_T_CELL, 2, size, cells, 0);
    });
    EXPECT_THAT(read_mat_texts(file, "class_names"),
                ElementsAre("Audi TT", "Ram C/V Cargo Van Minivan 2012"));
  }
}

TEST(MatRecords, AnotherLibraryReadsOurFiles) {
  const TemporaryFolder folder;
  const std::string path = folder.write("a.mat", cars_file());
  mat_t* file = Mat_Open(path.c_str(), MAT_ACC_RDONLY);
  ASSERT_TRUE(file);
  matvar_t* cars = Mat_VarRead(file, "annotations");
  ASSERT_TRUE(cars);
  EXPECT_EQ(cars->class_type, MAT_C_STRUCT);
  ASSERT_EQ(cars->dims[1], 2u);
  const matvar_t* number = Mat_VarGetStructFieldByName(cars, "class", 1);
  ASSERT_TRUE(number);
  EXPECT_EQ(number->class_type, MAT_C_DOUBLE);
  EXPECT_EQ(*static_cast<const double*>(number->data), 300);
  const matvar_t* name = Mat_VarGetStructFieldByName(cars, "fname", 0);
  EXPECT_EQ(name->class_type, MAT_C_CHAR);
  EXPECT_EQ(std::string(static_cast<const char*>(name->data), name->nbytes), "00001.jpg");
  Mat_VarFree(cars);
  Mat_Close(file);
}

TEST(MatRecords, RoundTripKeepsRecords) {
  const MatRecords records = read_mat_records(cars_file(), "annotations");
  EXPECT_EQ(records.fields, two_cars().fields);
  EXPECT_EQ(records.rows, two_cars().rows);
  EXPECT_EQ(cars_file(), cars_file());
  EXPECT_THAT(read_mat_texts(names_file(), "class_names"),
              ElementsAre("Audi TT", "", "BMW Série 3"));
}

TEST(MatRecords, Utf16StringsBecomeUtf8) {
  std::string file = names_file();
  // "Audi TT" has seven bytes; a string of three UTF-16 units replaces it.
  const std::size_t at = file.find(std::string("\x10\0\0\0\x07\0\0\0", 8) + "Audi TT");
  ASSERT_NE(at, file.npos);
  const std::string units("\x41\0\xe9\0\x3d\xd8", 6);
  file.replace(at, 16, std::string("\x11\0\0\0\x06\0\0\0", 8) + units + std::string(2, '\0'));
  EXPECT_EQ(read_mat_texts(file, "class_names")[0], "Aé\xef\xbf\xbd");
  file.replace(at + 8, 6, std::string("\x3d\xd8\x97\xde\x41\0", 6));
  EXPECT_EQ(read_mat_texts(file, "class_names")[0],
            "\xf0\x9f\x9a\x97"
            "A");
}

TEST(MatRecords, ErrorsNameTheCause) {
  EXPECT_EQ(records_problem(""), "it is not a version 5 MAT-file");
  EXPECT_EQ(records_problem(cars_file(), "cars"), "it has no variable 'cars'");
  EXPECT_EQ(records_problem(names_file(), "class_names"),
            "its 'class_names' is not a list of records");
  EXPECT_EQ(texts_problem(cars_file(), "annotations"),
            "its 'annotations' is not a list of strings");
  const std::string numbers = records_by_matio(MAT_COMPRESSION_NONE, [] {
    matvar_t* cells[] = {matio_text("Audi TT"), matio_number(3)};
    std::size_t size[2] = {1, 2};
    return Mat_VarCreate("class_names", MAT_C_CELL, MAT_T_CELL, 2, size, cells, 0);
  });
  EXPECT_EQ(texts_problem(numbers), "its 'class_names' has no text at 2");
}

TEST(MatRecords, TruncationAnywhereIsRejected) {
  for (const std::string& file : {cars_file(), names_file()}) {
    for (std::size_t length = 0; length + 8 < file.size(); ++length) {
      const std::string cut = file.substr(0, length);
      EXPECT_NE(records_problem(cut, "annotations"), "") << length;
      EXPECT_NE(texts_problem(cut, "class_names"), "") << length;
    }
  }
}

TEST(MatRecords, FlippedBitsAreHandled) {
  std::size_t refused = 0;
  for (const std::string& file : {cars_file(), names_file()}) {
    for (std::size_t bit = 0; bit < file.size() * 8; ++bit) {
      std::string damaged = file;
      damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
      if (!records_problem(damaged).empty() && !texts_problem(damaged).empty()) ++refused;
    }
  }
  EXPECT_GT(refused, 1000u);
}

TEST(MatRecords, ReadsThePublishedAnnotations) {
  const auto folder = shared_data("data/stanford_cars/devkit");
  RETORT_NEEDS_SHARED(folder);
  const auto names = read_mat_texts(file_text(folder / "cars_meta.mat"), "class_names");
  ASSERT_EQ(names.size(), 196u);
  EXPECT_EQ(names[0], "AM General Hummer SUV 2000");
  EXPECT_EQ(names[195], "smart fortwo Convertible 2012");
  const MatRecords train =
      read_mat_records(file_text(folder / "cars_train_annos.mat"), "annotations");
  EXPECT_THAT(train.fields,
              ElementsAre("bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2", "class", "fname"));
  ASSERT_EQ(train.rows.size(), 8144u);
  EXPECT_THAT(train.rows[0], ElementsAre(std::int64_t{39}, std::int64_t{116}, std::int64_t{569},
                                         std::int64_t{375}, std::int64_t{14}, "00001.jpg"));
  EXPECT_EQ(train.rows[8143][5], MatCell("08144.jpg"));
  const MatRecords test =
      read_mat_records(file_text(folder / "cars_test_annos.mat"), "annotations");
  EXPECT_EQ(test.rows.size(), 8041u);
  EXPECT_THAT(test.fields, ElementsAre("bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2", "fname"));
}

}  // namespace
}  // namespace stages
