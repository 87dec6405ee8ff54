#pragma once

#include "runner/shared/error/diagnostic.h"
#include "stages/data/image_list.h"

namespace stages {

/// Turns a list of class folders (list_images()) into a list of label sets: files with the same
/// name in several class folders of a part are one image, and all these folders are its labels. The
/// image is read from the first of the files; the others are its ImageFile::copies. Notes how many
/// images have several labels. Returns an error at /multi_label if files with the same name differ
/// in their bytes.
runner::Result<ImageList> with_folder_labels(ImageList list);

}  // namespace stages
