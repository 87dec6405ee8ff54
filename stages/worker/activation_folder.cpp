#include "stages/worker/activation_folder.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "runner/shared/disk/new_file.h"
#include "runner/shared/stage/stage.h"
#include "stages/data/image_writer.h"
#include "stages/worker/feature_map_picture.h"

namespace stages {

ActivationFolder::ActivationFolder(std::string folder, ImageDatasetOptions transform)
    : folder_(std::move(folder)), transform_(std::move(transform)) {}

void ActivationFolder::write(const std::string& file, std::int64_t index, const std::string& what,
                             const at::Tensor& activation) {
  const auto bytes = png_file(activation_picture(image(file, index), activation));
  std::string name = std::filesystem::path(file).stem().string() + "." + std::to_string(index) +
                     "." + what + ".png";
  std::ranges::replace_if(
      name, [](char letter) { return letter == '/' || letter == ' '; }, '_');
  runner::make_folders(folder_);
  runner::write_atomically(std::filesystem::path(folder_) / name,
                           {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  ++written_;
  if (latest_->is_reduced) ++reduced_;
}

const SeenImage& ActivationFolder::image(const std::string& file, std::int64_t index) {
  if (latest_ && latest_index_ == index) return *latest_;
  latest_.reset();  // frees its memory first
  try {
    latest_ = seen_image(file, transform_);
  } catch (const ImageError& error) {
    throw runner::StageError(error.code, "image '" + file + "': " + error.what())
        .with_help(
            "the file was readable when its class was predicted: do not change images while the "
            "command runs");
  }
  latest_index_ = index;
  return *latest_;
}

std::string ActivationFolder::remark() const {
  if (reduced_ == 0) return "";
  return std::to_string(reduced_) + " of " + std::to_string(written_) +
         " heat maps are drawn over images reduced to " + std::to_string(kLongestDrawn) +
         " pixels on the longer side";
}

}  // namespace stages
