#pragma once

#include <cstdint>
#include <string>

#include "stages/stages.h"
#include "tests/support/image_stage_fixture.h"

namespace stages {

/// Tests of data.image_folder.
class ImageFolder : public ImageStageTest {
 protected:
  ImageFolder() : ImageStageTest(kDataImageFolder) {}
  void add_photos(int classes = 2, int each = 10) {
    for (int label = 0; label < classes; ++label) {
      for (int i = 0; i < each; ++i)
        folder_.add("data/c" + std::to_string(label) + "/" + std::to_string(100 + i) + ".jpg",
                    static_cast<std::uint64_t>(label * 100 + i), 40 + i, 33);
    }
  }
};

}  // namespace stages
