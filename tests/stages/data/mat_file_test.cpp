#include "stages/data/mat_file.h"

#include <matio.h>

#include <array>
#include <limits>
#include <numeric>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/pictures.h"
#include "tests/support/program.h"
#include "tests/support/shared_data.h"

namespace stages {
namespace {

using testing::ElementsAre;

std::string problem(const std::string& file, const std::string& name = "labels") {
  try {
    read_mat(file, name);
    return "";
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
}

/// A file as another library writes it.
template <typename T>
std::string written_by_matio(const std::vector<T>& values, matio_classes array_class,
                             matio_types type, matio_compression compression, int flags = 0) {
  const TemporaryFolder folder;
  const std::string path = folder / "a.mat";
  mat_t* file = Mat_CreateVer(path.c_str(), nullptr, MAT_FT_MAT5);
  std::vector<T> before = {1, 2, 3, 4, 5, 6};
  for (const char* const name : {"other", "labels"}) {
    std::vector<T> numbers = name == std::string("labels") ? values : before;
    std::size_t size[2] = {1, numbers.size()};
    mat_complex_split_t both{numbers.data(), numbers.data()};
    void* data = flags & MAT_F_COMPLEX ? static_cast<void*>(&both) : numbers.data();
    matvar_t* variable = Mat_VarCreate(name, array_class, type, 2, size, data, flags);
    EXPECT_EQ(Mat_VarWrite(file, variable, compression), 0);
    Mat_VarFree(variable);
  }
  Mat_Close(file);
  return file_text(path);
}

std::string small_file() {
  return mat_file(std::array{MatMatrix{"other", 2, 2, {1, 2, 3, 4}},
                             MatMatrix{"labels", 1, 5, {7, 300, 1, 0, 65535}}});
}

TEST(MatFile, ReadsFilesFromAnotherLibrary) {
  std::vector<std::int64_t> values(300);
  std::iota(values.begin(), values.end(), -20);
  for (const auto compression : {MAT_COMPRESSION_NONE, MAT_COMPRESSION_ZLIB}) {
    const auto check = [&](auto number, matio_classes array_class, matio_types type) {
      using T = decltype(number);
      std::vector<T> written(values.begin(), values.end());
      const MatMatrix matrix =
          read_mat(written_by_matio(written, array_class, type, compression), "labels");
      EXPECT_EQ(matrix.rows, 1);
      EXPECT_EQ(matrix.columns, 300);
      EXPECT_EQ(matrix.values, std::vector<std::int64_t>(written.begin(), written.end()))
          << int{type};
    };
    check(std::uint8_t{}, MAT_C_UINT8, MAT_T_UINT8);
    check(std::int8_t{}, MAT_C_INT8, MAT_T_INT8);
    check(std::uint16_t{}, MAT_C_UINT16, MAT_T_UINT16);
    check(std::int16_t{}, MAT_C_INT16, MAT_T_INT16);
    check(std::int32_t{}, MAT_C_INT32, MAT_T_INT32);
    check(std::uint32_t{}, MAT_C_UINT32, MAT_T_UINT32);
    check(std::int64_t{}, MAT_C_INT64, MAT_T_INT64);
    check(float{}, MAT_C_SINGLE, MAT_T_SINGLE);
    check(double{}, MAT_C_DOUBLE, MAT_T_DOUBLE);
  }
}

TEST(MatFile, ReadsSmallElements) {
  for (const auto compression : {MAT_COMPRESSION_NONE, MAT_COMPRESSION_ZLIB}) {
    const auto read = [&](const std::vector<std::uint8_t>& values) {
      return read_mat(written_by_matio(values, MAT_C_UINT8, MAT_T_UINT8, compression), "labels")
          .values;
    };
    EXPECT_THAT(read({9}), ElementsAre(9));
    EXPECT_THAT(read({9, 8, 7, 6}), ElementsAre(9, 8, 7, 6));
    EXPECT_THAT(read({9, 8, 7, 6, 5}), ElementsAre(9, 8, 7, 6, 5));
  }
  // Like MATLAB, stores three bytes of numbers and a name of two bytes in the tags themselves.
  std::string file = mat_file({});
  const auto word = [](std::uint32_t number) {
    std::string text;
    for (int i = 0; i < 4; ++i) text += static_cast<char>(number >> (8 * i) & 0xff);
    return text;
  };
  const std::string variable = word(6) + word(8) + word(9) + word(0) + word(5) + word(8) + word(3) +
                               word(1) + word(1 | 2 << 16) + std::string("ab\0\0", 4) +
                               word(2 | 3 << 16) + std::string("\x05\x06\x07\0", 4);
  file += word(14) + word(static_cast<std::uint32_t>(variable.size())) + variable;
  const MatMatrix matrix = read_mat(file, "ab");
  EXPECT_EQ(matrix.rows, 3);
  EXPECT_THAT(matrix.values, ElementsAre(5, 6, 7));
}

TEST(MatFile, AnotherLibraryReadsOurFiles) {
  const TemporaryFolder folder;
  const std::string path = folder / "a.mat";
  const std::string bytes = small_file();
  write_bytes(path, {bytes.begin(), bytes.end()});
  mat_t* file = Mat_Open(path.c_str(), MAT_ACC_RDONLY);
  ASSERT_TRUE(file);
  matvar_t* narrow = Mat_VarRead(file, "other");
  ASSERT_TRUE(narrow);
  EXPECT_EQ(narrow->class_type, MAT_C_UINT8);
  EXPECT_EQ(narrow->dims[0], 2u);
  EXPECT_EQ(static_cast<std::uint8_t*>(narrow->data)[3], 4);
  Mat_VarFree(narrow);
  matvar_t* wide = Mat_VarRead(file, "labels");
  ASSERT_TRUE(wide);
  EXPECT_EQ(wide->class_type, MAT_C_UINT16);
  EXPECT_EQ(wide->dims[1], 5u);
  EXPECT_EQ(static_cast<std::uint16_t*>(wide->data)[4], 65535);
  Mat_VarFree(wide);
  Mat_Close(file);
}

TEST(MatFile, RoundTripKeepsTheBytes) {
  EXPECT_THAT(read_mat(small_file(), "labels").values, ElementsAre(7, 300, 1, 0, 65535));
  EXPECT_THAT(read_mat(small_file(), "other").values, ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(small_file(), small_file());
  EXPECT_EQ(small_file().substr(0, 39), "MATLAB 5.0 MAT-file, written by Retort ");
}

TEST(MatFile, ErrorsNameTheCause) {
  const std::string file = small_file();
  const auto changed = [&](std::size_t at, const std::string& bytes) {
    std::string result = file;
    return result.replace(at, bytes.size(), bytes);
  };
  EXPECT_EQ(problem(""), "it is not a version 5 MAT-file");
  EXPECT_EQ(problem(std::string(500, 'x')), "it is not a version 5 MAT-file");
  EXPECT_EQ(problem(changed(124, std::string("\x01\x00MI", 4))),
            "it was written on a big-endian machine; save it again on this one");
  EXPECT_EQ(problem(changed(124, std::string("\x00\x02IM", 4))),
            "its version is not 5; save it again with -v7");
  EXPECT_EQ(problem(file, "trnid"), "it has no variable 'trnid'");
  EXPECT_EQ(problem(mat_file({})), "it has no variable 'labels'");
  EXPECT_EQ(problem(file.substr(0, file.size() - 1)),
            "it ends within a variable: 72 bytes are expected, but only 71 are left");
  EXPECT_EQ(problem(changed(128, "\x0d")), "it has an element of type 13 among its variables");
  EXPECT_EQ(
      problem(written_by_matio<double>({1, 2.5}, MAT_C_DOUBLE, MAT_T_DOUBLE, MAT_COMPRESSION_ZLIB)),
      "it has a number that is not an integer");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(
      problem(written_by_matio<double>({1, nan}, MAT_C_DOUBLE, MAT_T_DOUBLE, MAT_COMPRESSION_NONE)),
      "it has a number that is not an integer");
  EXPECT_EQ(problem(written_by_matio<double>({1, 2}, MAT_C_DOUBLE, MAT_T_DOUBLE,
                                             MAT_COMPRESSION_NONE, MAT_F_COMPLEX)),
            "its 'labels' has complex numbers");
  EXPECT_EQ(problem(written_by_matio<std::uint8_t>({'a', 'b', 'c', 'd', 'e'}, MAT_C_CHAR,
                                                   MAT_T_UINT8, MAT_COMPRESSION_NONE)),
            "its 'labels' is not a matrix of numbers");
}

TEST(MatFile, CompressedPartsAreLimited) {
  std::vector<std::uint8_t> zeros(kMaxMatBytes + 1);
  const std::string file = written_by_matio(zeros, MAT_C_UINT8, MAT_T_UINT8, MAT_COMPRESSION_ZLIB);
  EXPECT_LT(file.size(), std::size_t{1} << 20);
  EXPECT_EQ(problem(file), "its data is larger than any list of labels when decompressed");
}

/// Files that contain every kind of element.
std::vector<std::string> samples() {
  return {
      small_file(),
      written_by_matio<std::uint8_t>({3, 1, 2}, MAT_C_UINT8, MAT_T_UINT8, MAT_COMPRESSION_NONE),
      written_by_matio<double>({3, 1, 2, 700}, MAT_C_DOUBLE, MAT_T_DOUBLE, MAT_COMPRESSION_NONE),
      written_by_matio<std::uint16_t>({3, 1, 2, 700, 4}, MAT_C_UINT16, MAT_T_UINT16,
                                      MAT_COMPRESSION_ZLIB)};
}

TEST(MatFile, TruncationAnywhereIsRejected) {
  for (const std::string& file : samples()) {
    const std::size_t size = file.size();
    std::size_t refused = 0;
    for (std::size_t length = 0; length < size; ++length)
      refused += problem(file.substr(0, length)).empty() ? 0 : 1;
    // The missing bytes may be padding, which the reader does not need.
    EXPECT_GE(refused, size - 7);
  }
}

TEST(MatFile, FlippedBitsAreHandled) {
  for (const std::string& file : samples()) {
    std::size_t refused = 0;
    for (std::size_t bit = 0; bit < file.size() * 8; ++bit) {
      std::string damaged = file;
      damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
      if (!problem(damaged).empty()) ++refused;
    }
    EXPECT_GT(refused, 100u);
  }
}

TEST(MatFile, ReadsThePublishedLists) {
  const auto folder = shared_data("data/flowers102-metadata");
  RETORT_NEEDS_SHARED(folder);
  const MatMatrix labels = read_mat(file_text(folder / "imagelabels.mat"), "labels");
  EXPECT_EQ(labels.rows, 1);
  EXPECT_EQ(labels.columns, 8189);
  EXPECT_THAT(std::vector(labels.values.begin(), labels.values.begin() + 3),
              ElementsAre(77, 77, 77));
  EXPECT_THAT(std::vector(labels.values.end() - 3, labels.values.end()), ElementsAre(62, 62, 62));
  const std::string lists = file_text(folder / "setid.mat");
  const MatMatrix training = read_mat(lists, "trnid"), validation = read_mat(lists, "valid"),
                  test = read_mat(lists, "tstid");
  EXPECT_EQ(training.values.size(), 1020u);
  EXPECT_EQ(validation.values.size(), 1020u);
  EXPECT_EQ(test.values.size(), 6149u);
  EXPECT_THAT(std::vector(training.values.begin(), training.values.begin() + 3),
              ElementsAre(6765, 6755, 6768));
  EXPECT_THAT(std::vector(validation.values.begin(), validation.values.begin() + 3),
              ElementsAre(6773, 6767, 6739));
  EXPECT_THAT(std::vector(test.values.begin(), test.values.begin() + 3),
              ElementsAre(6734, 6735, 6737));
}

}  // namespace
}  // namespace stages
