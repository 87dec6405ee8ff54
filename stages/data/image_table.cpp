#include <string>
#include <utility>

#include "stages/data/image_stage.h"
#include "stages/data/image_table_list.h"

namespace stages {
namespace {

runner::Result<std::unique_ptr<runner::Stage>> create_image_table(runner::ConfigReader& reader) {
  const ImageOptions options = read_image_options(reader);
  ImageTable table{.root = options.root, .file = {}, .image = {}, .label = {}, .allow_outside = options.allow_outside};
  std::string file;
  reader.read("table", file);
  table.file = file;
  reader.read("image", table.image);
  reader.read("label", table.label);
  reader.read("part", table.part);
  reader.read("minimum_per_class", table.minimum_per_class);
  ImageSource source;
  source.divided_by = "table '" + file + "', image '" + table.image + "', label '" + table.label + "'" +
                      (table.part ? ", part '" + *table.part + "'" : "") + ", at least " +
                      std::to_string(table.minimum_per_class) + " of a class";
  source.captions = read_captions(reader);
  read_split(reader.section("split"), source);
  source.list = [table, captions = source.captions]() mutable {
    table.captions = captions;
    return list_image_table(table);
  };
  return image_stage(reader, options, std::move(source));
}

}  // namespace

extern const runner::StageKind kDataImageTable = {.name = "data.image_table", .create = create_image_table};

}  // namespace stages
