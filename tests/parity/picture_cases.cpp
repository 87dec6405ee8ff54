// Image augmentations, compared with Pillow and torchvision: see tests/golden/picture_changes.py.

#include "runner/shared/disk/digest.h"
#include "stages/data/image_change.h"
#include "tests/parity/recorded_numbers.h"

namespace {

using namespace stages;

Image of_many_colors() {
  Image image = Image::unset(1024, 1024);
  for (std::size_t i = 0; i < image.pixels.size() / 3; ++i) {
    for (std::size_t channel = 0; channel < 3; ++channel)
      image.pixels[3 * i + channel] =
          static_cast<std::uint8_t>((16 * i + i / 65536) >> (8 * channel));
  }
  return image;
}

std::string bytes_as_text(const Image& image) {
  return std::string(reinterpret_cast<const char*>(image.pixels.data()), image.pixels.size());
}

std::string hexadecimal(const Image& image) {
  std::string text;
  for (const std::uint8_t byte : image.pixels) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

Image recorded_image(const nlohmann::json& json) {
  Image image(json.at("width"), json.at("height"));
  const std::string pixels = json.at("pixels");
  EXPECT_EQ(pixels.size(), 2 * image.pixels.size());
  for (std::size_t i = 0; i < image.pixels.size(); ++i)
    image.pixels[i] = static_cast<std::uint8_t>(std::stoi(pixels.substr(2 * i, 2), nullptr, 16));
  return image;
}

ImageChange recorded_change(const nlohmann::json& json) {
  const std::map<std::string, Adjustment> adjustments = {{"brightness", Adjustment::kBrightness},
                                                         {"contrast", Adjustment::kContrast},
                                                         {"saturation", Adjustment::kSaturation},
                                                         {"hue", Adjustment::kHue}};
  ImageChange change{.is_mirrored = json.at("mirrored"), .is_upside_down = json.at("upside_down")};
  for (std::size_t i = 0; i < change.order.size(); ++i)
    change.order[i] = adjustments.at(json.at("order").at(i));
  change.brightness = json.at("brightness");
  change.contrast = json.at("contrast");
  change.saturation = json.at("saturation");
  if (!json.at("hue").is_null()) change.hue = json.at("hue");
  change.rotation = json.at("rotation");
  change.right = json.at("right");
  change.down = json.at("down");
  change.shear = json.at("shear");
  change.scale = json.at("scale");
  return change;
}

void compare_picture(const RecordedCase& recorded) {
  std::map<std::string, Image> pictures = {{"many_colors", of_many_colors()}};
  for (const nlohmann::json& json : recorded.json.at("pictures"))
    pictures[json.at("name")] = recorded_image(json);
  for (const nlohmann::json& json : recorded.json.at("changes")) {
    const Image made = changed(pictures.at(json.at("picture")), recorded_change(json));
    nlohmann::json asked = json;
    asked.erase("pixels");
    if (json.contains("sha256"))
      EXPECT_EQ(runner::sha256(bytes_as_text(made)), json.at("sha256")) << asked;
    else EXPECT_EQ(hexadecimal(made), json.at("pixels")) << asked;
  }
}

}  // namespace

std::vector<CaseKind> picture_cases() {
  return {number_kind("PictureChanges", "picture_changes", compare_picture)};
}
