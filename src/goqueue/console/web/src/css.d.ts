declare module "*.css"; // bundled by the build into app.css
