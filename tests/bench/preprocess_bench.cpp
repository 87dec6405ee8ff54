// From image files to normalized tensors on one thread, and libjpeg-turbo's plain decoding of the
// same files.

#include <cstdio>

#include <jpeglib.h>

#include <torch/utils.h>

#include "stages/data/image.h"
#include "stages/data/image_dataset.h"
#include "stages/data/image_list.h"
#include "tests/bench/blocks.h"

namespace {

using stages::ImageDataset;

/// Decodes a JPEG to RGB with libjpeg-turbo's defaults into the buffer returned by
/// `pixels_of(width, height)`, and does nothing with it.
void decode_and_forget(const std::filesystem::path& path, const auto& pixels_of) {
  const std::vector<std::uint8_t> file = stages::read_image_file(path);
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, file.data(), file.size());
  jpeg_read_header(&info, TRUE);
  info.out_color_space = JCS_RGB;
  jpeg_start_decompress(&info);
  auto pixels =
      pixels_of(static_cast<int>(info.output_width), static_cast<int>(info.output_height));
  while (info.output_scanline < info.output_height) {
    JSAMPROW row = pixels.data() + std::size_t{3} * info.output_width * info.output_scanline;
    jpeg_read_scanlines(&info, &row, 1);
  }
  jpeg_finish_decompress(&info);
  jpeg_destroy_decompress(&info);
}

ImageDataset dataset(const std::shared_ptr<const stages::ImageList>& list, int image_size,
                     stages::Decode decode) {
  stages::ImageDatasetOptions options;
  options.decode = decode;
  options.image_size = image_size;
  options.mean = {0.48145466, 0.4578275, 0.40821073};
  options.standard_deviation = {0.26862954, 0.26130258, 0.27577711};
  return {list, stages::Part::kTest, options, /*seed=*/0, /*cache=*/nullptr};
}

double mean_value(const ImageDataset& data, std::int64_t images) {
  double sum = 0;
  for (std::int64_t i = 0; i < images; ++i)
    sum += data.sample(0, i)->at("image").mean().item<double>();
  return sum / static_cast<double>(images);
}

}  // namespace

/// One argument, JSON: {"root": folder of class folders, "image_size": pixels, "images": how many}.
int main(int, char** arguments) {
  const auto options = nlohmann::json::parse(arguments[1]);
  torch::set_num_threads(1);
  auto listed = stages::list_images(options.at("root").get<std::string>(), /*allow_outside=*/false);
  if (!listed) {
    std::cerr << listed.errors()[0].message << "\n";
    return 66;
  }
  stages::ImageList& list = *listed;
  list[stages::Part::kTest] = list[stages::Part::kTrain];
  const auto shared = std::make_shared<const stages::ImageList>(std::move(list));
  const auto& files = (*shared)[stages::Part::kTest];
  const std::int64_t images =
      std::min(options.at("images").get<std::int64_t>(), std::int64_t(files.size()));
  const int size = options.at("image_size");
  const ImageDataset exact = dataset(shared, size, stages::Decode::kExact);
  const ImageDataset fast = dataset(shared, size, stages::Decode::kFast);
  const auto read_all = [images](const ImageDataset& data) {
    for (std::int64_t i = 0; i < images; ++i) static_cast<void>(data.sample(0, i));
  };

  report({{"images", images}, {"mean", {{"retort, decode: exact", mean_value(exact, images)}}}});
  while (next_block()) {
    nlohmann::json seconds;
    seconds["retort, decode: exact"] = seconds_of([&] { read_all(exact); });
    seconds["retort, decode: fast"] = seconds_of([&] { read_all(fast); });
    const auto decode_all = [&](const auto& pixels_of) {
      for (std::int64_t i = 0; i < images; ++i)
        decode_and_forget(shared->root / files[std::size_t(i)].name, pixels_of);
    };
    seconds["libjpeg-turbo, decode only"] = seconds_of([&] {
      decode_all([](int width, int height) {
        return std::vector<std::uint8_t>(std::size_t(3) * width * height);
      });
    });
    seconds["libjpeg-turbo, decode only, into our memory"] = seconds_of([&] {
      decode_all([](int width, int height) { return stages::Image::unset(width, height).pixels; });
    });
    report({{"seconds", seconds}});
  }
  return 0;
}
