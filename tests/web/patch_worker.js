import './patch.js';
import '/worker.js';
