#include "stages/data/make_image_folder.h"

#include <fstream>
#include <string>

#include <nlohmann/json.hpp>

#include "stages/data/jpeg_writer.h"
#include "runner/shared/disk/new_folder.h"
#include "stages/data/shapes.h"
#include "runner/shared/value/parse_json.h"

namespace stages {
namespace {

namespace fs = std::filesystem;
using runner::ErrorCode;

constexpr const char* kMarker = ".retort-made.json";
constexpr int kVersion = 1;  // counted up when the pictures change

nlohmann::ordered_json numbers(const MadeImages& images) {
  return {{"version", kVersion},
          {"classes", images.classes},
          {"per_class", images.per_class},
          {"size", images.size},
          {"seed", images.seed}};
}

}  // namespace

void make_image_folder(const fs::path& folder, const MadeImages& images, const MakeCallbacks& callbacks) {
  check(images, 1);
  runner::NewFolder made(folder, *callbacks.storage, "/root");
  std::int64_t done = 0;
  for (std::int64_t label = 0; label < images.classes; ++label) {
    const auto shape = static_cast<std::size_t>(label);
    const std::string below(shape_names()[shape]);
    made.create(below);
    for (std::int64_t i = 0; i < images.per_class; ++i) {
      check_cancelled(callbacks);
      const Random random({static_cast<std::uint64_t>(images.seed), shape, static_cast<std::uint64_t>(i)});
      made.write(below + "/" + padded(i, 5) + ".jpg",
                 encode_jpeg(draw_shape(shape, static_cast<int>(images.size), random), kMadeQuality));
      if (callbacks.progress) callbacks.progress(++done, images.count());
    }
  }
  made.write(kMarker, numbers(images).dump(2) + "\n");
  made.publish();
}

std::optional<runner::Diagnostic> differs(const fs::path& folder, const MadeImages& images) {
  std::ifstream file(folder / kMarker);
  std::string text(4096, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  const auto made = runner::parse_json<nlohmann::ordered_json>(text);
  if (!made.is_object()) {
    return runner::Diagnostic{ErrorCode::kFolderExists,
                              {},
                              "",
                              "'" + folder.string() + "' already exists and was not made by 'make'",
                              "set make: null to use what is there, or choose another root"};
  }
  if (made == numbers(images)) return std::nullopt;
  return runner::Diagnostic{ErrorCode::kOptionConflict,
                            {},
                            "",
                            "'" + folder.string() + "' was made with other numbers: " + made.dump().substr(0, 200),
                            "choose another root, or remove the folder to have it made again"};
}

}  // namespace stages
