static const char *const serve_page[] = { "<!doctype html><title>x</title>\n" };
