#include "stages/data/image.h"

#include <sys/stat.h>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "tests/support/pictures.h"
#include "tests/support/temporary_folder.h"

namespace stages {
namespace {

std::string failure(Bytes file) {
  try {
    decode_image(file);
    return "";
  } catch (const ImageError& error) {
    return runner::name(error.code) + ": " + error.what();
  }
}

std::vector<std::uint8_t> header_of(std::uint32_t width, std::uint32_t height) {
  std::vector<std::uint8_t> file = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n',
                                    0,    0,   0,   13,  'I',  'H',  'D',  'R'};
  for (const std::uint32_t side : {width, height}) {
    for (int shift = 24; shift >= 0; shift -= 8)
      file.push_back(static_cast<std::uint8_t>(side >> shift));
  }
  file.insert(file.end(), {8, 2, 0, 0, 0, 0, 0, 0, 0});
  return file;
}

TEST(PngReader, TransparencyIsDropped) {
  const std::array<std::uint8_t, 8> pixels = {10, 20, 30, 0, 40, 50, 60, 128};
  EXPECT_EQ(decode_png(encode_png(2, 1, pixels.data(), PNG_FORMAT_RGBA)).pixels,
            (Pixels{10, 20, 30, 40, 50, 60}));
}

TEST(PngReader, GreyIsRepeated) {
  const std::array<std::uint8_t, 2> pixels = {7, 200};
  EXPECT_EQ(decode_png(encode_png(1, 2, pixels.data(), PNG_FORMAT_GRAY)).pixels,
            (Pixels{7, 7, 7, 200, 200, 200}));
}

TEST(PngReader, MissingPixelsAreCorrupt) {
  auto file = encode_png(50, 50, picture(50, 50).pixels.data());
  file.resize(file.size() / 2);
  EXPECT_EQ(failure(file), "E0604: the file ends too early");
  file.resize(30);
  EXPECT_EQ(failure(file), "E0604: the file ends too early");
  file.resize(12);
  EXPECT_EQ(failure(file), "E0604: the header is missing");
}

TEST(PngReader, TooManyPixelsAreRefusedFromTheHeader) {
  EXPECT_EQ(failure(header_of(20'000, 10'000)),
            "E0605: it has 20000 x 10000 pixels, more than 178 million");
  EXPECT_EQ(failure(header_of(2'000'000, 2)),
            "E0605: it has 2000000 x 2 pixels, more than 178 million");
  EXPECT_EQ(failure(header_of(0, 7)), "E0604: it has 0 x 7 pixels");
}

TEST(PngReader, DamagedBytesNeverDoMoreThanThrow) {
  const auto whole = encode_png(31, 17, picture(31, 17).pixels.data());
  int failed = 0;
  for (std::uint64_t round = 0; round < 1500; ++round) {
    Random random({12, round});
    auto file = whole;
    for (std::int64_t changes = 1 + random.below(4); changes > 0; --changes) {
      file[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(file.size())))] =
          static_cast<std::uint8_t>(random.next());
    }
    if (round % 3 == 0)
      file.resize(static_cast<std::size_t>(random.below(static_cast<std::int64_t>(file.size()))));
    failed += !failure(file).empty();
  }
  EXPECT_GT(failed, 1000);
}

TEST(ImageReader, TellsFormatsByTheirBytesAndNamesTheRest) {
  EXPECT_EQ(failure({}), "E0604: the file is empty");
  const std::string words = "no image";
  EXPECT_EQ(failure({reinterpret_cast<const std::uint8_t*>(words.data()), words.size()}),
            "E0609: it is not JPEG, PNG or WebP");
  const std::string text = "GIF89a";
  EXPECT_EQ(failure({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}),
            "E0609: it is a GIF image, an unsupported format");
}

TEST(ImageReader, FileOfMoreThanAGibibyteIsNotRead) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.write("a.png", "");
  std::filesystem::resize_file(file, (std::int64_t{1} << 30) + 1);  // a hole: it takes no room
  try {
    read_image_file(file);
    ADD_FAILURE() << "it was read";
  } catch (const ImageError& error) {
    EXPECT_EQ(error.code, runner::ErrorCode::kImageTooLarge);
  }
}

TEST(ImageReader, FileThatIsNotThereOrNoFile) {
  const DrawingFolder folder;
  const auto cause = [](const std::filesystem::path& path) -> std::string {
    try {
      read_image_file(path);
      return "";
    } catch (const ImageError& error) {
      return runner::name(error.code) + ": " + error.what();
    }
  };
  EXPECT_EQ(cause(folder / "a.jpg"), "E0603: No such file or directory");
  EXPECT_EQ(cause(folder.path()), "E0603: it is not a file");
  ASSERT_EQ(mkfifo((folder / "pipe.jpg").c_str(), 0600), 0);
  EXPECT_EQ(cause(folder / "pipe.jpg"), "E0603: it is not a file");
}

}  // namespace
}  // namespace stages
